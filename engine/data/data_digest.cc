#include "engine/data/data_digest.h"

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/base/bytes.h"
#include "offload/store/checksum.h"

namespace strata::engine {
namespace {

constexpr std::int64_t kWindowTokens = 1 << 20;
constexpr std::int64_t kWindowDocuments = 1 << 14;
constexpr std::int64_t kWindowsMax = 256;

// visit(first, count) for windows of up to `size` of `all` elements, evenly over them.
template <typename Visit>
void visit_windows(std::int64_t all, std::int64_t size, Visit&& visit) {
  const std::int64_t windows = ceil_div(all, size);
  const std::int64_t looked_at = std::min(windows, kWindowsMax);
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const std::int64_t first = windows * i / looked_at * size;
    visit(first, std::min(size, all - first));
  }
}

// Of `window` and of what lies before it.
template <typename T>
std::uint64_t checksum(std::span<T> window, std::uint64_t before) {
  const auto bytes = std::as_bytes(window);
  return store::checksum(bytes.data(), std::ssize(bytes), before);
}

void digest_tokens(const TokenData& data, DataDigest& digest) {
  std::vector<std::int32_t> memory(
      static_cast<std::size_t>(std::min(digest.tokens, kWindowTokens)));
  visit_windows(digest.tokens, kWindowTokens, [&](std::int64_t first, std::int64_t count) {
    const auto window = std::span(memory).first(static_cast<std::size_t>(count));
    data.tokens->read(first, window);
    digest.ids = checksum(window, digest.ids);
    std::ranges::fill(window, 0);
    if (data.mask != nullptr) {
      data.mask->ignore_untrained(first, window);
      digest.mask = checksum(window, digest.mask.value_or(0));
    }
    digest.read_tokens += count;
    digest.trained_tokens += std::ranges::count(window, 0);
  });
}

void digest_documents(const DocumentIndex& documents, DataDigest& digest) {
  digest.documents = documents.documents();
  std::vector<std::int64_t> memory(
      static_cast<std::size_t>(std::min(digest.documents, kWindowDocuments)));
  visit_windows(digest.documents, kWindowDocuments, [&](std::int64_t first, std::int64_t count) {
    const auto window = std::span(memory).first(static_cast<std::size_t>(count));
    documents.read(first, window);
    digest.document_starts = checksum(window, digest.document_starts.value_or(0));
  });
}

}  // namespace

DataDigest digest_of(const TokenData& data) {
  DataDigest digest;
  digest.tokens = data.tokens->tokens();
  digest_tokens(data, digest);
  if (data.documents != nullptr) digest_documents(*data.documents, digest);
  return digest;
}

}  // namespace strata::engine

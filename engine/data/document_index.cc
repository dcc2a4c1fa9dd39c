#include "engine/data/document_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "engine/data/array_reader.h"
#include "engine/data/file_parts.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

constexpr std::string_view kMagic = "STRATADC";
constexpr std::int64_t kStartsAt = 16;  // behind the magic and the count
constexpr std::int64_t kStartBytes = 8;
constexpr std::int64_t kPointersOfRead = 256;  // on the stack

std::int64_t read_count(const InputFile& file) {
  std::array<char, kMagic.size()> magic{};
  std::int64_t count = 0;
  if (file.bytes() >= kStartsAt) {
    file.read(0, std::as_writable_bytes(std::span(magic)));
    file.read(kMagic.size(), std::as_writable_bytes(std::span(&count, 1)));
  }
  if (std::string_view(magic.data(), magic.size()) != kMagic) {
    throw_error<FormatError>("'{}' is no list of documents: it does not begin with {}", file.path(),
                             kMagic);
  }
  const std::int64_t fitting = (file.bytes() - kStartsAt) / kStartBytes;
  if (count != fitting || file.bytes() != kStartsAt + count * kStartBytes || count == 0) {
    throw_error<FormatError>(
        "'{}' is damaged: it promises {} documents, but its {} bytes have room for {}", file.path(),
        count, file.bytes(), fitting);
  }
  return count;
}

}  // namespace

DocumentIndex::DocumentIndex(const std::vector<DocumentFile>& files)
    : layouts_(files), files_(InputFiles::entries_of(files)) {
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  for (const DocumentFile& file : files) {
    ends_.push_back(documents += file.documents);
    token_ends_.push_back(tokens += file.tokens);
  }
}

void DocumentIndex::read(std::int64_t first, std::span<std::int64_t> starts) const {
  const std::int64_t inside = documents() - first;
  STRATA_CHECK(first >= 0 && std::ssize(starts) <= inside + 1);
  if (std::ssize(starts) > inside) {
    starts.back() = token_ends_.back();
    starts = starts.first(static_cast<std::size_t>(inside));
  }
  for_each_part(std::span(ends_), first, starts, [&](auto file, auto in_file, auto part) {
    read_file(file, in_file, part);
    const std::int64_t before = file == 0 ? 0 : token_ends_[file - 1];
    for (std::int64_t& start : part) start += before;
  });
}

void DocumentIndex::read_file(std::size_t file, std::int64_t first,
                              std::span<std::int64_t> starts) const {
  const DocumentFile& layout = layouts_[file];
  files_.read(file, layout.starts_at + first * kStartBytes, std::as_writable_bytes(starts));
  if (!layout.sequences) return;
  std::array<std::int64_t, kPointersOfRead> pointers;
  std::int64_t from = 0;  // the sequences of `pointers`: [from, end)
  std::int64_t end = 0;
  for (std::int64_t& start : starts) {
    const std::int64_t sequence = start;
    if (sequence == layout.sequences->count) {  // an empty document at the end
      start = layout.tokens;
      continue;
    }
    if (sequence < 0 || sequence > layout.sequences->count) {
      throw_error<IoError>("'{}' was changed while it is read", files_.path(file));
    }
    if (sequence < from || sequence >= end) {
      from = sequence;
      end = std::min(from + kPointersOfRead, layout.sequences->count);
      const auto window = std::span(pointers).first(static_cast<std::size_t>(end - from));
      files_.read(file, layout.sequences->pointers_at + from * kStartBytes,
                  std::as_writable_bytes(window));
    }
    start = pointers[static_cast<std::size_t>(sequence - from)] / layout.sequences->token_bytes;
  }
}

DocumentFile open_documents(const std::string& path, std::int64_t tokens) {
  const InputFile file(path);
  const std::int64_t count = read_count(file);
  ArrayReader<std::int64_t> starts(file, kStartsAt, count);
  std::int64_t before = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t start = starts.next();
    if (start <= before || start >= tokens || (i == 0 && start != 0)) {
      throw_error<FormatError>(
          "'{}' is damaged: document {} begins at token {}{}, of {} tokens; the first begins at 0 "
          "and each later than the one before it",
          path, i, start, i == 0 ? "" : fmt::format(", the one before it at {}", before), tokens);
    }
    before = start;
  }
  return {{path, file.identity()}, count, tokens, kStartsAt, std::nullopt};
}

}  // namespace strata::engine

#include "engine/data/token_files.h"

#include <algorithm>
#include <array>

#include "engine/data/file_parts.h"
#include "engine/options/count_text.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

constexpr std::size_t kReadBytes = 8192;  // of one read, on the stack

}  // namespace

TokenFiles::TokenFiles(const std::vector<TokenFile>& files, std::int64_t vocabulary)
    : files_(InputFiles::entries_of(files)), layout_(files.at(0).layout), vocabulary_(vocabulary) {
  std::int64_t end = 0;
  for (const TokenFile& file : files) ends_.push_back(end += file.layout.tokens);
}

std::string TokenFiles::description() const {
  const std::string tokens = fmt::format("{} {}", with_separators(this->tokens()), layout_.format);
  if (ends_.size() == 1) return tokens;
  return fmt::format("{} in {} files", tokens, with_separators(std::ssize(ends_)));
}

void TokenFiles::read(std::int64_t first, std::span<std::int32_t> ids) const {
  STRATA_CHECK(first >= 0 && std::ssize(ids) <= tokens() - first);
  for_each_part(std::span(ends_), first, ids,
                [&](auto file, auto in_file, auto part) { read_file(file, in_file, part); });
}

void TokenFiles::read_file(std::size_t file, std::int64_t first,
                           std::span<std::int32_t> ids) const {
  std::array<std::byte, kReadBytes> chunk;
  const std::int64_t token_bytes = bytes_of(layout_.type);
  const std::size_t count_max = kReadBytes / static_cast<std::size_t>(token_bytes);
  while (!ids.empty()) {
    const std::size_t count = std::min(ids.size(), count_max);
    const auto bytes = std::span(chunk).first(count * static_cast<std::size_t>(token_bytes));
    files_.read(file, layout_.offset_bytes + first * token_bytes, bytes);
    decode(bytes, file, first, ids.first(count));
    ids = ids.subspan(count);
    first += static_cast<std::int64_t>(count);
  }
}

void TokenFiles::decode(std::span<const std::byte> bytes, std::size_t file, std::int64_t first,
                        std::span<std::int32_t> ids) const {
  const std::size_t token_bytes = bytes.size() / ids.size();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t id = load_token(layout_.type, bytes.data() + i * token_bytes);
    if (id < 0 || id >= vocabulary_) {
      throw_error<FormatError>(
          "'{}': id {} at position {} is outside the model's vocabulary of {}; the file was made "
          "with another tokenizer",
          files_.path(file), id, first + static_cast<std::int64_t>(i), vocabulary_);
    }
    ids[i] = static_cast<std::int32_t>(id);
  }
}

}  // namespace strata::engine

#include "engine/data/token_mask.h"

#include <algorithm>
#include <array>

#include "engine/data/file_parts.h"
#include "kernels/base/error.h"
#include "kernels/ops/cross_entropy.h"

namespace strata::engine {
namespace {

constexpr std::size_t kMaskReadBytes = 4096;  // of one read, on the stack

}  // namespace

TokenMask::TokenMask(const std::vector<File>& files) : files_(InputFiles::entries_of(files)) {
  std::int64_t end = 0;
  for (const File& file : files) ends_.push_back(end += file.tokens);
}

void TokenMask::ignore_untrained(std::int64_t first, std::span<std::int32_t> targets) const {
  STRATA_CHECK(first >= 0 && std::ssize(targets) <= ends_.back() - first);
  for_each_part(std::span(ends_), first, targets,
                [&](auto file, auto in_file, auto part) { ignore_in_file(file, in_file, part); });
}

void TokenMask::ignore_in_file(std::size_t file, std::int64_t first,
                               std::span<std::int32_t> targets) const {
  std::array<std::uint8_t, kMaskReadBytes> chunk;
  for (std::size_t done = 0; done < targets.size(); done += kMaskReadBytes) {
    const auto flags = std::span(chunk).first(std::min(kMaskReadBytes, targets.size() - done));
    const std::int64_t offset = first + static_cast<std::int64_t>(done);
    files_.read(file, offset, std::as_writable_bytes(flags));
    for (std::size_t i = 0; i < flags.size(); ++i) {
      if (flags[i] > 1) {
        throw_error<FormatError>("'{}': the byte at {} is {}, but a mask has 1 and 0",
                                 files_.path(file), offset + static_cast<std::int64_t>(i),
                                 flags[i]);
      }
      if (flags[i] == 0) targets[done + i] = ops::kIgnoredTarget;
    }
  }
}

TokenMask::File open_mask(const std::string& path, std::int64_t tokens) {
  const InputFile file(path);
  if (file.bytes() != tokens) {
    throw_error<FormatError>(
        "'{}' has {} bytes for {} tokens; a mask has one byte for each: make both files again",
        path, file.bytes(), tokens);
  }
  return {{path, file.identity()}, tokens};
}

}  // namespace strata::engine

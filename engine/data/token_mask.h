// TokenMask: which tokens are trained, from the NAME.mask beside every token file: one byte per
// token, 1 or 0. There is a loss where a trained token is the target.
//
// Thread contract: immutable; reads from any thread, at once, allocate nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/data/input_file.h"

namespace strata::engine {

class TokenMask {
 public:
  // The masks of token files that follow each other, at least one, none empty.
  struct File {
    InputFiles::Entry entry;
    std::int64_t tokens;
  };
  explicit TokenMask(const std::vector<File>& files);

  // targets[i] is token first + i, and becomes ops::kIgnoredTarget where that is not trained.
  // Throws IoError, or FormatError for another value than 0 and 1.
  void ignore_untrained(std::int64_t first, std::span<std::int32_t> targets) const;

 private:
  void ignore_in_file(std::size_t file, std::int64_t first, std::span<std::int32_t> targets) const;

  InputFiles files_;
  std::vector<std::int64_t> ends_;  // [file]: tokens of the files up to and including it
};

// Throws FormatError unless the file has one byte for each of so many tokens.
TokenMask::File open_mask(const std::string& path, std::int64_t tokens);

}  // namespace strata::engine

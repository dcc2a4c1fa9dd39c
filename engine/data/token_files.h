// TokenFiles: one or more files of one format as one sequence of tokens, in the order given. A
// window may begin in one file and end in another.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/data/input_file.h"
#include "engine/data/token_format.h"
#include "engine/data/token_source.h"

namespace strata::engine {

struct TokenFile {
  InputFiles::Entry entry;
  TokenLayout layout;  // tokens >= 1
};

class TokenFiles final : public TokenSource {
 public:
  // files: at least one, all of one format.
  TokenFiles(const std::vector<TokenFile>& files, std::int64_t vocabulary);

  std::int64_t tokens() const override { return ends_.back(); }
  std::string description() const override;
  void read(std::int64_t first, std::span<std::int32_t> ids) const override;

 private:
  void read_file(std::size_t file, std::int64_t first, std::span<std::int32_t> ids) const;
  void decode(std::span<const std::byte> bytes, std::size_t file, std::int64_t first,
              std::span<std::int32_t> ids) const;

  InputFiles files_;
  std::vector<std::int64_t> ends_;  // [file]: tokens of the files up to and including it
  TokenLayout layout_;              // of each file, apart from `tokens`
  std::int64_t vocabulary_;
};

}  // namespace strata::engine

// NAME.json beside a token file: what scripts/tokenize.py says of the tokens that it wrote. Two
// tokenizers may give the same text other ids, all of them inside the vocabulary: only the hash of
// the tokenizer's vocabulary tells.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/data/token_data.h"

namespace strata::engine {

struct TokenMetadata {
  std::string tokenizer;  // its vocabulary_hash() (models/tokenizer_file.h); "": not known
  std::int64_t trained_tokens;
};

// What there is beside it.
struct CompanionCounts {
  std::int64_t tokens;
  std::optional<std::int64_t> documents;
  bool has_mask;
};

// Nothing: there is no file `path`, or it is not of this kind. Throws FormatError: it is damaged,
// of another version, or of other tokens, documents and masks than there are.
std::optional<TokenMetadata> read_token_metadata(const std::string& path,
                                                 const CompanionCounts& counts);

// Throws ConfigError when a file of `data` was made with another tokenizer than the model's, whose
// vocabulary_hash() is `expected` ("": it has none). Returns what could not be checked and why, for
// a line of warning; "": nothing.
std::string check_tokenizer(const TokenData& data, const std::string& expected);

}  // namespace strata::engine

// NAME.json beside a token file: what scripts/tokenize.py says of the tokens that it wrote. Two
// tokenizers may give the same text other ids, all of them inside the vocabulary: only the hash of
// the tokenizer's vocabulary tells.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/data/token_data.h"

namespace strata::engine {

// The tokenizer's hash (models/tokenizer_file.h) in the file `path`; "": there is no such file, it
// is not of this kind, or it does not know. Throws FormatError: it is damaged, of another version,
// or of another number of tokens or documents.
std::string read_tokenizer_hash(const std::string& path, std::int64_t tokens,
                                std::optional<std::int64_t> documents);

// Throws ConfigError when a file of `data` was made with another tokenizer than the model's, whose
// tokenizer.json (text; "": none) this is. Returns what could not be checked and why, for a line of
// warning; "": nothing.
std::string check_tokenizer(const TokenData& data, const std::string& tokenizer_json);

}  // namespace strata::engine

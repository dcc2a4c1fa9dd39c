// A Hugging Face tokenizer.json as what is needed to decode tokens and to tell vocabularies apart:
// which text each id stands for. It does not encode: merges, normalizer and pre-tokenizer are not
// looked at.
//
// Parsing trusts nothing. Immutable afterwards: any threads.
// Source: tokenizers 0.23, src/tokenizer/serialization.rs and models/*/serialization.rs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace strata::models {

inline constexpr const char* kTokenizerFileName = "tokenizer.json";
// The largest published ones have some 35 MB.
inline constexpr std::int64_t kTokenizerFileBytesMax = std::int64_t{128} << 20;

class TokenizerFile {
 public:
  struct Token {
    std::string text;      // as the file has it, not decoded
    bool special = false;  // it is no text but a mark, such as the end of a document
  };

  // Throws FormatError, without the name of the file, for what is no tokenizer.json.
  static TokenizerFile parse(std::string_view json);

  // "xxh3-128:" and 32 hexadecimal digits: XXH3 of "ID TOKEN\n" for all tokens in the order of
  // their ids. The same for two files exactly when their ids stand for the same tokens.
  std::string vocabulary_hash() const;

  // Tokens; there may be ids between theirs without one, and the model's vocabulary may be padded.
  std::int64_t size() const { return std::ssize(tokens_); }

  // Null for an id without a token.
  const Token* find(std::int32_t id) const;

  // How tokens become text (token_decoder.h): the file's "decoder", as JSON.
  const std::string& decoder() const { return decoder_; }

 private:
  std::map<std::int32_t, Token> tokens_;  // by id
  std::string decoder_;
};

}  // namespace strata::models

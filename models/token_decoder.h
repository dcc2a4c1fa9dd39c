// TokenDecoder: tokens, one by one, as text in valid UTF-8: the text that each token completes, so
// that it can be shown while a model writes it.
//
//   ByteLevel                          each character of a token stands for a byte (GPT-2, Llama 3,
//                                      Qwen, SmolLM2)
//   Replace, ByteFallback, Fuse, Strip SentencePiece's: "▁" is a space, "<0x0A>" a byte, and one
//   Metaspace                          space at the beginning is left out (Llama 2, Mistral)
//
// Bytes that are no UTF-8 become U+FFFD as in Utf8Stream. (`tokenizers` does the same, except that
// a run of <0xXX> tokens with one fault anywhere becomes U+FFFD throughout, which could not be
// shown before the run has ended.)
//
// Thread contract: one thread.
// Source: tokenizers 0.23, src/decoders and src/pre_tokenizers/{byte_level,metaspace}.rs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/tokenizer_file.h"
#include "models/utf8_stream.h"

namespace strata::models {

enum class SpecialTokens : std::uint8_t { skip, show };

// A tokenizer.json's decoder as steps, each done if it is there, in the order of the members.
struct DecoderSteps {
  bool byte_level = false;
  std::string replaced;  // in each token, by `replacement`; empty: nothing
  std::string replacement;
  bool byte_fallback = false;
  bool first_without_replaced = false;       // from the first token `replaced` is removed
  std::int64_t leading_spaces_stripped = 0;  // at most so many, of the whole text
};

// Throws ConfigError naming a decoder that is not supported, and FormatError, both without the name
// of the file.
DecoderSteps parse_decoder(std::string_view json);

class TokenDecoder {
 public:
  // The file must outlive it. Throws as parse_decoder().
  TokenDecoder(const TokenizerFile& file, SpecialTokens special);

  // The text that this token completes, often "", and always for an id without a token. What is to
  // follow a prompt has to be decoded after the prompt, whose text is dropped: at the beginning a
  // space is left out.
  std::string add(std::int32_t id);

  // At the end: what is left of a character that is not complete.
  std::string finish() { return text_.finish(); }

 private:
  std::string bytes_of(const std::string& token) const;

  const TokenizerFile& file_;
  SpecialTokens special_;
  DecoderSteps steps_;
  bool at_first_token_ = true;
  std::int64_t spaces_to_strip_;
  Utf8Stream text_;
};

}  // namespace strata::models

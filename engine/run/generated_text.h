// GeneratedText: tokens as what a person reads, piece by piece: text where the model has a
// tokenizer.json or its tokens are bytes, otherwise ids with spaces between. All of it is valid
// UTF-8. Thread contract: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "models/model_config.h"
#include "models/token_decoder.h"
#include "models/tokenizer_file.h"
#include "models/utf8_stream.h"

namespace strata::engine {

class GeneratedText {
 public:
  // `tokenizer`: the text of the model's tokenizer.json; "": there is none. Throws FormatError and
  // ConfigError, naming the file.
  GeneratedText(const models::ModelConfig& model, const std::string& tokenizer);
  GeneratedText(const GeneratedText&) = delete;
  GeneratedText& operator=(const GeneratedText&) = delete;

  bool is_text() const { return file_.has_value() || is_bytes_; }

  // Of a new text, which follows `prompt`.
  void begin(std::span<const std::int32_t> prompt);
  // What this token adds; often "".
  std::string add(std::int32_t token);
  // What is left at the end.
  std::string finish();

 private:
  bool is_bytes_;
  std::optional<models::TokenizerFile> file_;
  std::optional<models::TokenDecoder> decoder_;
  models::Utf8Stream bytes_;
};

}  // namespace strata::engine

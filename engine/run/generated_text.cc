#include "engine/run/generated_text.h"

#include "kernels/base/error.h"

namespace strata::engine {

GeneratedText::GeneratedText(const models::ModelConfig& model, const std::string& tokenizer)
    : is_bytes_(tokenizer.empty() && model.vocabulary == models::kByteVocabulary) {
  if (tokenizer.empty()) return;
  try {
    file_ = models::TokenizerFile::parse(tokenizer);
    decoder_.emplace(*file_, models::SpecialTokens::skip);
  } catch (const FormatError& e) {
    throw_error<FormatError>("{}: {}", models::kTokenizerFileName, e.what());
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("{}: {}; without that file the tokens' ids are shown",
                             models::kTokenizerFileName, e.what());
  }
}

void GeneratedText::begin(std::span<const std::int32_t> prompt) {
  bytes_ = {};
  if (!file_) return;
  decoder_.emplace(*file_, models::SpecialTokens::skip);
  for (const std::int32_t token : prompt) decoder_->add(token);
}

std::string GeneratedText::add(std::int32_t token) {
  if (decoder_) return decoder_->add(token);
  if (!is_bytes_) return std::to_string(token) + ' ';
  const auto byte = static_cast<char>(token);
  return bytes_.add({&byte, 1});
}

std::string GeneratedText::finish() {
  if (decoder_) return decoder_->finish();
  return bytes_.finish();
}

}  // namespace strata::engine

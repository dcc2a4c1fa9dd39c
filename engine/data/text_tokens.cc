// Text, for byte-level models: one byte is one token.
#include "engine/data/token_format.h"
#include "engine/data/untokenized.h"
#include "models/model_config.h"

namespace strata::engine {

TokenLayout text_layout(const InputFile& file, std::int64_t vocabulary) {
  if (vocabulary != models::kByteVocabulary) {
    throw UntokenizedFile(
        fmt::format("'{}': a text file needs a byte-level model (vocabulary {}), this model has {}",
                    file.path(), models::kByteVocabulary, vocabulary),
        file.path());
  }
  return {"bytes of text", TokenType::uint8, 0, file.bytes()};
}

}  // namespace strata::engine

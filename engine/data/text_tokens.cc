// Text, for byte-level models: one byte is one token.
#include "engine/data/token_format.h"
#include "kernels/base/error.h"

namespace strata::engine {

TokenLayout text_layout(const InputFile& file, std::int64_t vocabulary) {
  constexpr std::int64_t kByteVocabulary = 256;
  if (vocabulary != kByteVocabulary) {
    throw_error<ConfigError>(
        "'{}': a text file needs a byte-level model (vocabulary {}), this model has {}; make a "
        "token file of it first",
        file.path(), kByteVocabulary, vocabulary);
  }
  return {"bytes of text", TokenType::uint8, 0, file.bytes()};
}

}  // namespace strata::engine

// nanoGPT's .bin: uint16 tokens and nothing else.
#include "engine/data/token_format.h"
#include "kernels/base/error.h"

namespace strata::engine {

TokenLayout nanogpt_layout(const InputFile& file) {
  if (file.bytes() % 2 != 0) {
    throw_error<FormatError>(
        "'{}' has an odd number of bytes ({}), so it is not a nanoGPT file of uint16 tokens",
        file.path(), file.bytes());
  }
  return {"nanoGPT tokens", TokenType::uint16, 0, file.bytes() / 2};
}

}  // namespace strata::engine

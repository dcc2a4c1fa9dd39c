// libFuzzer target: a tokenizer.json. Any text is refused with a ConfigError or a FormatError, or
// its tokens decode to valid UTF-8, whatever their order.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "kernels/base/error.h"
#include "models/token_decoder.h"

namespace {

using namespace strata::models;

// nlohmann-json refuses to write text that is no UTF-8.
void require_utf8(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    std::abort();
  }
}

void decode(const TokenizerFile& file, SpecialTokens special, std::span<const std::uint8_t> ids) {
  TokenDecoder decoder(file, special);
  for (const std::uint8_t id : ids) require_utf8(decoder.add(id));
  require_utf8(decoder.finish());
}

}  // namespace

// The text of the input is also the ids that are decoded.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto file = TokenizerFile::parse({reinterpret_cast<const char*>(data), size});
    if (file.vocabulary_hash().size() != std::string_view("xxh3-128:").size() + 32) std::abort();
    for (const auto special : {SpecialTokens::skip, SpecialTokens::show}) {
      decode(file, special, std::span(data, size));
    }
  } catch (const strata::ConfigError&) {
  } catch (const strata::FormatError&) {
  }
  return 0;
}

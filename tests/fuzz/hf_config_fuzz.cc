// libFuzzer target: a config.json. Any text is refused with a ConfigError or a FormatError, or is a
// model within the limits.
#include <cstdlib>
#include <string_view>

#include "kernels/base/error.h"
#include "models/hf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace strata::models;
  try {
    const HfModel model = parse_hf_config({reinterpret_cast<const char*>(data), size});
    const ModelConfig& config = model.config;
    if (config.hidden % config.heads != 0 || config.layers < 1 || config.hidden > kHiddenMax ||
        config.parameters() < 1) {
      std::abort();
    }
  } catch (const strata::ConfigError&) {
  } catch (const strata::FormatError&) {
  }
  return 0;
}

// libFuzzer target: a config.json. Any text is refused with a ConfigError or a FormatError, or is a
// model within the limits, whose own config.json is read as the same model.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "kernels/base/error.h"
#include "models/hf_config.h"

namespace {

using namespace strata::models;

std::optional<ModelConfig> parse(std::string_view text) {
  try {
    return parse_hf_config(text).config;
  } catch (const strata::ConfigError&) {
  } catch (const strata::FormatError&) {
  }
  return std::nullopt;
}

bool within(std::int64_t value, std::int64_t most) { return value >= 1 && value <= most; }

bool is_within_limits(const ModelConfig& config) {
  return within(config.layers, kLayersMax) && within(config.hidden, kHiddenMax) &&
         within(config.heads, kHeadsMax) && within(config.kv_heads, config.heads) &&
         config.heads % config.kv_heads == 0 && within(config.head_dim, kHeadDimMax) &&
         within(config.intermediate, kIntermediateMax) && within(config.context, kContextMax) &&
         within(config.vocabulary, kVocabularyMax) && config.parameters() >= 1;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = parse({reinterpret_cast<const char*>(data), size});
  if (!config) return 0;
  if (!is_within_limits(*config)) std::abort();
  const auto again = parse(hf_config_text(*config, strata::Dtype::f32));
  const bool is_same = again && again->parameters() == config->parameters() &&
                       again->window == config->window &&
                       again->rotary.has_value() == config->rotary.has_value();
  if (!is_same) std::abort();
  return 0;
}

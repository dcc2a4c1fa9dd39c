#include "models/presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "kernels/base/error.h"
#include "kernels/base/suggest.h"

namespace strata::models {
namespace {

constexpr std::string_view kSpecPrefix = "gpt2:";
constexpr std::string_view kSpecExample =
    "gpt2:layers=6,hidden=384,heads=6,context=256[,vocab=256]";
constexpr std::int64_t kGpt2Vocabulary = 50257;
constexpr std::int64_t kGpt2Context = 1024;

// What follows from the other sizes.
void complete_gpt2(ModelConfig& config) {
  apply_family(config, Family::gpt2);
  config.kv_heads = config.heads;
  config.head_dim = config.hidden / config.heads;
  config.intermediate = 4 * config.hidden;
}

ModelConfig gpt2(const char* name, std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelConfig config;
  config.name = name;
  config.layers = layers;
  config.hidden = hidden;
  config.heads = heads;
  config.context = kGpt2Context;
  config.vocabulary = kGpt2Vocabulary;
  complete_gpt2(config);
  return config;
}

// Radford et al. 2019, table 2; heads from the released models.
const std::array<ModelConfig, 4>& presets() {
  static const std::array<ModelConfig, 4> kPresets{{
      gpt2("gpt2-124m", 12, 768, 12),
      gpt2("gpt2-355m", 24, 1024, 16),
      gpt2("gpt2-774m", 36, 1280, 20),
      gpt2("gpt2-1.5b", 48, 1600, 25),
  }};
  return kPresets;
}

struct Key {
  std::string name;
  std::int64_t ModelConfig::*value;
  std::int64_t value_max;
};

const std::array<Key, 5>& keys() {
  static const std::array<Key, 5> kKeys{{
      {"layers", &ModelConfig::layers, kLayersMax},
      {"hidden", &ModelConfig::hidden, kHiddenMax},
      {"heads", &ModelConfig::heads, kHeadsMax},
      {"context", &ModelConfig::context, kContextMax},
      {"vocab", &ModelConfig::vocabulary, kVocabularyMax},
  }};
  return kKeys;
}

const Key& key_of(std::string_view name, std::string_view text) {
  const auto found = std::ranges::find(keys(), name, &Key::name);
  if (found != keys().end()) return *found;
  std::vector<std::string> names;
  for (const Key& key : keys()) names.push_back(key.name);
  throw_error<ConfigError>("--model {}: unknown key '{}'{}; known are {}", text, name,
                           did_you_mean(name, names), fmt::join(names, ", "));
}

void set_value(ModelConfig& config, std::string_view setting, std::string_view text) {
  const std::size_t equals = setting.find('=');
  const std::string_view name = setting.substr(0, equals);
  const Key& key = key_of(name, text);
  std::int64_t& value = config.*key.value;
  if (value != 0) throw_error<ConfigError>("--model {}: '{}' is given twice", text, name);
  const std::string_view digits =
      equals == std::string_view::npos ? std::string_view{} : setting.substr(equals + 1);
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc{} || stop != end || value < 1 || value > key.value_max) {
    throw_error<ConfigError>("--model {}: '{}' must be a whole number from 1 to {}, not '{}'", text,
                             name, key.value_max, digits);
  }
}

ModelConfig parse_spec(std::string_view text) {
  ModelConfig config;
  config.name = text;
  std::string_view rest = text.substr(kSpecPrefix.size());
  while (true) {
    const std::size_t comma = rest.find(',');
    set_value(config, rest.substr(0, comma), text);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (config.vocabulary == 0) config.vocabulary = kByteVocabulary;
  for (const Key& key : keys()) {
    if (config.*key.value == 0) {
      throw_error<ConfigError>("--model {}: '{}' is missing; write {}", text, key.name,
                               kSpecExample);
    }
  }
  if (config.hidden % config.heads != 0) {
    throw_error<ConfigError>("--model {}: hidden ({}) must be a multiple of heads ({})", text,
                             config.hidden, config.heads);
  }
  complete_gpt2(config);
  return config;
}

}  // namespace

ModelConfig parse_model(std::string_view text) {
  if (text.starts_with(kSpecPrefix)) return parse_spec(text);
  const auto found = std::ranges::find(presets(), text, &ModelConfig::name);
  if (found != presets().end()) return *found;
  const std::vector<std::string> names = model_presets();
  throw_error<ConfigError>(
      "--model {}: unknown model{}; known are {}, a spec {}, a folder with a config.json, and "
      "org/name in the Hugging Face cache",
      text, did_you_mean(text, names), fmt::join(names, ", "), kSpecExample);
}

bool is_model_name(std::string_view text) {
  return text.starts_with(kSpecPrefix) ||
         std::ranges::find(presets(), text, &ModelConfig::name) != presets().end();
}

std::vector<std::string> model_presets() {
  std::vector<std::string> names;
  for (const ModelConfig& preset : presets()) names.push_back(preset.name);
  return names;
}

bool implies_random_weights(std::string_view text) { return is_model_name(text); }

}  // namespace strata::models

#include "models/gpt2_config.h"

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

// Radford et al. 2019, table 2; heads from the released models.
const std::array<Gpt2Config, 4>& presets() {
  static const std::array<Gpt2Config, 4> kPresets{{
      {"gpt2-124m", 12, 768, 12, kGpt2Context, kGpt2Vocabulary},
      {"gpt2-355m", 24, 1024, 16, kGpt2Context, kGpt2Vocabulary},
      {"gpt2-774m", 36, 1280, 20, kGpt2Context, kGpt2Vocabulary},
      {"gpt2-1.5b", 48, 1600, 25, kGpt2Context, kGpt2Vocabulary},
  }};
  return kPresets;
}

struct Key {
  std::string name;
  std::int64_t Gpt2Config::*value;
  std::int64_t value_max;
};

const std::array<Key, 5>& keys() {
  static const std::array<Key, 5> kKeys{{
      {"layers", &Gpt2Config::layers, kLayersMax},
      {"hidden", &Gpt2Config::hidden, kHiddenMax},
      {"heads", &Gpt2Config::heads, kHeadsMax},
      {"context", &Gpt2Config::context, kContextMax},
      {"vocab", &Gpt2Config::vocabulary, kVocabularyMax},
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

void set_value(Gpt2Config& config, std::string_view setting, std::string_view text) {
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

Gpt2Config parse_spec(std::string_view text) {
  Gpt2Config config;
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
  return config;
}

}  // namespace

std::int64_t Gpt2Config::parameters() const {
  const std::int64_t matrices = 12 * hidden * hidden;  // c_attn 3, c_proj 1, c_fc 4, c_proj 4
  const std::int64_t vectors = 13 * hidden;            // biases 3 + 1 + 4 + 1, two norms
  return (vocabulary + context) * hidden + layers * (matrices + vectors) + 2 * hidden;
}

Gpt2Config parse_gpt2(std::string_view text) {
  if (text.starts_with(kSpecPrefix)) return parse_spec(text);
  const auto found = std::ranges::find(presets(), text, &Gpt2Config::name);
  if (found != presets().end()) return *found;
  const std::vector<std::string> names = gpt2_presets();
  throw_error<ConfigError>(
      "--model {}: unknown model{}; known are {}, a spec {}, a folder with a config.json, and "
      "org/name in the Hugging Face cache",
      text, did_you_mean(text, names), fmt::join(names, ", "), kSpecExample);
}

bool is_gpt2_name(std::string_view text) {
  return text.starts_with(kSpecPrefix) ||
         std::ranges::find(presets(), text, &Gpt2Config::name) != presets().end();
}

std::vector<std::string> gpt2_presets() {
  std::vector<std::string> names;
  for (const Gpt2Config& preset : presets()) names.push_back(preset.name);
  return names;
}

}  // namespace strata::models

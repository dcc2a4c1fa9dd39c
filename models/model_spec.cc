#include "models/model_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/suggest.h"
#include "models/families.h"

namespace strata::models {
namespace {

constexpr std::string_view kTiedKey = "tied";

struct SizeKey {
  std::string_view name;
  std::int64_t ModelConfig::*value;
  std::int64_t value_max;
};
constexpr SizeKey kSizes[] = {
    {"layers", &ModelConfig::layers, kLayersMax},
    {"hidden", &ModelConfig::hidden, kHiddenMax},
    {"heads", &ModelConfig::heads, kHeadsMax},
    {"context", &ModelConfig::context, kContextMax},
    {"vocab", &ModelConfig::vocabulary, kVocabularyMax},
    {"kv-heads", &ModelConfig::kv_heads, kHeadsMax},
    {"head-dim", &ModelConfig::head_dim, kHeadDimMax},
    {"intermediate", &ModelConfig::intermediate, kIntermediateMax},
    {"window", &ModelConfig::window, kContextMax},
};
constexpr std::size_t kNeeded = 4;         // of kSizes
constexpr std::size_t kGpt2SizeCount = 5;  // of kSizes: the others follow from these

std::span<const SizeKey> sizes_of(Family family) {
  return family == Family::gpt2 ? std::span(kSizes).first(kGpt2SizeCount) : std::span(kSizes);
}

std::vector<std::string> keys_of(Family family) {
  std::vector<std::string> names;
  for (const SizeKey& key : sizes_of(family)) names.emplace_back(key.name);
  if (family != Family::gpt2) names.emplace_back(kTiedKey);
  return names;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const FamilyTraits& traits : kFamilies) names.emplace_back(traits.name);
  return names;
}

Family family_from(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  for (const FamilyTraits& traits : kFamilies) {
    if (name == traits.name) return traits.family;
  }
  const std::vector<std::string> names = family_names();
  throw_error<ConfigError>("--model {}: unknown family '{}'{}; known are {}", text, name,
                           did_you_mean(name, names), fmt::join(names, ", "));
}

// The values by key: each key is known, and there once.
using Settings = std::map<std::string_view, std::string_view>;

Settings settings_of(std::string_view text, Family family) {
  const std::vector<std::string> known = keys_of(family);
  Settings settings;
  std::string_view rest = text.substr(text.find(':') + 1);
  while (true) {
    const std::string_view setting = rest.substr(0, rest.find(','));
    const std::size_t equals = std::min(setting.find('='), setting.size());
    const std::string_view name = setting.substr(0, equals);
    if (std::ranges::find(known, name) == known.end()) {
      throw_error<ConfigError>("--model {}: unknown key '{}'{}; known are {}", text, name,
                               did_you_mean(name, known), fmt::join(known, ", "));
    }
    const std::string_view value = setting.substr(std::min(equals + 1, setting.size()));
    if (!settings.emplace(name, value).second) {
      throw_error<ConfigError>("--model {}: '{}' is given twice", text, name);
    }
    if (setting.size() == rest.size()) return settings;
    rest.remove_prefix(setting.size() + 1);
  }
}

std::int64_t size_from(std::string_view digits, const SizeKey& key, std::string_view text) {
  std::int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc{} || stop != end || value < 1 || value > key.value_max) {
    throw_error<ConfigError>("--model {}: '{}' must be a whole number from 1 to {}, not '{}'", text,
                             key.name, key.value_max, digits);
  }
  return value;
}

HeadKind head_from(std::string_view value, std::string_view text) {
  if (value == "yes") return HeadKind::tied;
  if (value == "no") return HeadKind::untied;
  throw_error<ConfigError>("--model {}: '{}' must be yes or no, not '{}'", text, kTiedKey, value);
}

void make_rotary(ModelConfig& config) {
  const bool is_qwen = config.family == Family::qwen2 || config.family == Family::qwen3;
  config.norm_epsilon = is_qwen ? 1e-6 : 1e-5;
  config.rotary = RotaryConfig{config.head_dim, is_qwen ? 1e6 : 1e4};
}

}  // namespace

bool is_model_spec(std::string_view text) {
  return text.find(':') != std::string_view::npos && text.find('/') == std::string_view::npos;
}

std::string model_spec_form() {
  return fmt::format(
      "FAMILY:layers=6,hidden=384,heads=6,context=256[,vocab=256] with FAMILY one of {}",
      fmt::join(family_names(), ", "));
}

ModelConfig parse_model_spec(std::string_view text) {
  const Family family = family_from(text);
  Settings settings = settings_of(text, family);
  ModelConfig config;
  config.name = text;
  apply_family(config, family);
  config.head = family == Family::gpt2 ? HeadKind::tied : HeadKind::untied;
  for (const SizeKey& key : sizes_of(family)) {
    const auto given = settings.find(key.name);
    if (given != settings.end()) config.*key.value = size_from(given->second, key, text);
  }
  for (const SizeKey& key : std::span(kSizes).first(kNeeded)) {
    if (config.*key.value == 0) {
      throw_error<ConfigError>("--model {}: '{}' is missing; write {}", text, key.name,
                               model_spec_form());
    }
  }
  if (settings.contains(kTiedKey)) config.head = head_from(settings[kTiedKey], text);
  if (config.vocabulary == 0) config.vocabulary = kByteVocabulary;
  const std::vector<std::string> problems = resolve_shape(config);
  if (!problems.empty()) {
    throw_error<ConfigError>("--model {}: {}", text, fmt::join(problems, "; "));
  }
  if (family != Family::gpt2) make_rotary(config);
  return config;
}

}  // namespace strata::models

#include "models/hf_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/ops/layernorm.h"
#include "models/hf_tensors.h"

namespace strata::models {

using nlohmann::json;

namespace {

constexpr const char* kModelType = "gpt2";
constexpr const char* kArchitecture = "GPT2LMHeadModel";
constexpr const char* kDropouts[] = {"attn_pdrop", "embd_pdrop", "resid_pdrop"};

// What a key must be, with its value where it is missing.
struct Required {
  const char* key;
  json value;
  json missing;
};

const std::vector<Required>& required_values() {
  static const std::vector<Required> kRequired = {
      {"activation_function", "gelu_new", "gelu_new"},
      {"scale_attn_weights", true, true},
      {"scale_attn_by_inverse_layer_idx", false, false},
      {"reorder_and_upcast_attn", false, false},
      {"tie_word_embeddings", true, true},
      {"add_cross_attention", false, false},
  };
  return kRequired;
}

struct Size {
  const char* key;
  const char* former;  // what old files call it
  std::int64_t ModelConfig::*value;
  std::int64_t value_max;
};

constexpr Size kSizes[] = {
    {"n_layer", "n_layer", &ModelConfig::layers, kLayersMax},
    {"n_embd", "n_embd", &ModelConfig::hidden, kHiddenMax},
    {"n_head", "n_head", &ModelConfig::heads, kHeadsMax},
    {"n_positions", "n_ctx", &ModelConfig::context, kContextMax},
    {"vocab_size", "vocab_size", &ModelConfig::vocabulary, kVocabularyMax},
};

// The value of a key, or null where there is none.
const json& value_of(const json& root, const char* key) {
  static const json kNull;
  const auto found = root.find(key);
  return found == root.end() ? kNull : *found;
}

std::string text_of(const json& value) {
  if (value.is_structured()) return value.type_name();
  return value.is_null() ? "missing" : value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Of the architectures it is a model of, the one that is not ours.
std::optional<std::string> foreign_architecture(const json& root) {
  const json& architectures = value_of(root, "architectures");
  if (architectures.is_array() && !architectures.empty()) {
    const json& first = architectures.front();
    if (first != kArchitecture)
      return first.is_string() ? first.get<std::string>() : text_of(first);
  }
  const json& type = value_of(root, "model_type");
  if (type == kModelType) return std::nullopt;
  return type.is_string() ? type.get<std::string>() : "without a name";
}

void read_size(const json& root, const Size& size, ModelConfig& config,
               std::vector<std::string>& problems) {
  const json& named = value_of(root, size.key);
  const json& value = named.is_null() ? value_of(root, size.former) : named;
  const auto max = static_cast<std::uint64_t>(size.value_max);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < 1 ||
      value.get<std::uint64_t>() > max) {
    problems.push_back(fmt::format("{} must be a whole number from 1 to {} and is {}", size.key,
                                   size.value_max, text_of(value)));
    return;
  }
  config.*size.value = value.get<std::int64_t>();
}

ModelConfig read_sizes(const json& root, std::vector<std::string>& problems) {
  ModelConfig config;
  apply_family(config, Family::gpt2);
  for (const Size& size : kSizes) read_size(root, size, config, problems);
  if (!problems.empty()) return config;
  config.kv_heads = config.heads;
  config.head_dim = config.hidden / config.heads;
  config.intermediate = 4 * config.hidden;
  if (config.hidden % config.heads != 0) {
    problems.push_back(
        fmt::format("n_embd ({}) must be a multiple of n_head ({})", config.hidden, config.heads));
  }
  const json& inner = value_of(root, "n_inner");
  if (!inner.is_null() && inner != 4 * config.hidden) {
    problems.push_back(fmt::format("n_inner is {}; supported: null or 4 n_embd, {}", text_of(inner),
                                   4 * config.hidden));
  }
  const json& context = value_of(root, "n_ctx");
  if (!context.is_null() && context != config.context) {
    problems.push_back(
        fmt::format("n_ctx is {} and n_positions {}", text_of(context), config.context));
  }
  return config;
}

void check_mathematics(const json& root, std::vector<std::string>& problems) {
  for (const Required& required : required_values()) {
    const json& found = value_of(root, required.key);
    const json& value = found.is_null() ? required.missing : found;
    if (value == required.value) continue;
    problems.push_back(fmt::format("{} is {}; supported: {}", required.key, text_of(value),
                                   text_of(required.value)));
  }
  const json& epsilon = value_of(root, "layer_norm_epsilon");
  const bool is_ours =
      epsilon.is_null() || (epsilon.is_number() && epsilon.get<float>() == ops::kLayerNormEpsilon);
  if (!is_ours) {
    problems.push_back(
        fmt::format("layer_norm_epsilon is {}; supported: {}", text_of(epsilon), 1e-5));
  }
}

bool any_dropout(const json& root, std::vector<std::string>& problems) {
  bool any = false;
  for (const char* const key : kDropouts) {
    const json& value = value_of(root, key);
    if (!value.is_null() && !value.is_number()) {
      problems.push_back(fmt::format("{} is {}, which is no number", key, text_of(value)));
      continue;
    }
    any = any || value.is_null() || value.get<double>() > 0;  // missing: 0.1
  }
  return any;
}

}  // namespace

HfModel parse_hf_config(std::string_view text) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) throw FormatError("it is no JSON object");
  if (const auto foreign = foreign_architecture(root)) {
    throw_error<ConfigError>("architecture {} is not supported yet; supported: {}", *foreign,
                             kArchitecture);
  }
  std::vector<std::string> problems;
  HfModel model{read_sizes(root, problems), any_dropout(root, problems)};
  check_mathematics(root, problems);
  if (!problems.empty()) throw_error<ConfigError>("{}", fmt::join(problems, "; "));
  return model;
}

std::string merged_hf_config(const ModelConfig& config, Dtype dtype, std::string_view original) {
  using nlohmann::ordered_json;
  const auto ours = ordered_json::parse(hf_config_text(config, dtype));
  ordered_json merged = ordered_json::parse(original);
  merged.erase("dtype");  // by which newer versions call torch_dtype
  for (const char* const key : {"architectures", "model_type", "torch_dtype"}) {
    merged[key] = ours[key];
  }
  for (const auto& [key, value] : ours.items()) {
    const bool is_given = merged.contains(key) && !merged[key].is_null();
    if (!is_given) merged[key] = value;
  }
  return merged.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace strata::models

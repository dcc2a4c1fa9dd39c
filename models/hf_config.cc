#include "models/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/ops/layernorm.h"
#include "models/families.h"
#include "models/hf_keys.h"
#include "models/hf_rotary.h"
#include "models/json_value.h"

namespace strata::models {

using nlohmann::json;

namespace {

constexpr const char* kArchitectures = "architectures";
constexpr const char* kModelType = "model_type";
constexpr std::int64_t kDefaultWindow = 4096;
constexpr std::int64_t kDefaultMaxWindowLayers = 28;
constexpr std::int64_t kQwen3HeadDim = 128;

[[noreturn]] void refuse_architecture(const std::string& name) {
  std::vector<std::string> known;
  for (const FamilyTraits& family : kFamilies) known.emplace_back(family.architecture);
  throw_error<ConfigError>("architecture {} is not supported; supported: {}", name,
                           fmt::join(known, ", "));
}

// By model_type and the first of the architectures, either of which old files may lack.
Family family_of(const HfKeys& keys) {
  const json& type = keys.value(kModelType);
  const json& given = keys.value(kArchitectures);
  const json architecture = given.is_array() && !given.empty() ? given.front() : json();
  for (const FamilyTraits& family : kFamilies) {
    const bool same_type = type == family.name;
    const bool same_architecture = architecture == family.architecture;
    if (same_type && same_architecture) return family.family;
    if (same_type && architecture.is_null()) return family.family;
    if (same_architecture && type.is_null()) return family.family;
  }
  const auto text = [](const json& name) {
    return name.is_string() ? name.get<std::string>() : json_excerpt(name);
  };
  const bool known_architecture = std::ranges::any_of(
      kFamilies, [&](const FamilyTraits& f) { return architecture == f.architecture; });
  if (architecture.is_null()) refuse_architecture(type.is_null() ? "without a name" : text(type));
  refuse_architecture(known_architecture
                          ? fmt::format("{} with model_type {}", text(architecture), text(type))
                          : text(architecture));
}

struct Size {
  const char* key;
  std::int64_t ModelConfig::*value;
  std::int64_t value_max;
};

void read_sizes(const HfKeys& keys, std::span<const Size> sizes, ModelConfig& config) {
  for (const Size& size : sizes) config.*size.value = keys.count(size.key, 1, size.value_max);
}

bool any_dropout(const HfKeys& keys, std::span<const char* const> names, double missing) {
  bool any = false;
  for (const char* const name : names) {
    const json& value = keys.value(name);
    if (!value.is_null() && !value.is_number()) {
      keys.problem(fmt::format("{} is {}, which is no number", name, json_excerpt(value)));
      continue;
    }
    any = any || (value.is_null() ? missing : value.get<double>()) > 0;
  }
  return any;
}

// Where the number of heads was refused there is nothing more to say of them.
void resolve_shape(const HfKeys& keys, ModelConfig& config) {
  if (config.heads == 0) return;
  for (std::string& problem : models::resolve_shape(config)) keys.problem(std::move(problem));
}

constexpr Size kGpt2Sizes[] = {
    {"n_layer", &ModelConfig::layers, kLayersMax},
    {"n_embd", &ModelConfig::hidden, kHiddenMax},
    {"n_head", &ModelConfig::heads, kHeadsMax},
    {"vocab_size", &ModelConfig::vocabulary, kVocabularyMax},
};

void read_gpt2_sizes(const HfKeys& keys, ModelConfig& config) {
  read_sizes(keys, kGpt2Sizes, config);
  // Old files have n_ctx alone.
  const bool is_old = keys.missing("n_positions") && !keys.missing("n_ctx");
  config.context = keys.count(is_old ? "n_ctx" : "n_positions", 1, kContextMax);
  resolve_shape(keys, config);
  const json& inner = keys.value("n_inner");
  if (!inner.is_null() && inner != config.intermediate) {
    keys.problem(fmt::format("n_inner is {}; supported: null or 4 n_embd, {}", json_excerpt(inner),
                             config.intermediate));
  }
  const json& context = keys.value("n_ctx");
  if (!context.is_null() && context != config.context) {
    keys.problem(
        fmt::format("n_ctx is {} and n_positions {}", json_excerpt(context), config.context));
  }
}

HfModel read_gpt2(const HfKeys& keys) {
  HfModel model;
  apply_family(model.config, Family::gpt2);
  read_gpt2_sizes(keys, model.config);
  keys.require("activation_function", "gelu_new");
  keys.require("scale_attn_weights", true);
  keys.require("scale_attn_by_inverse_layer_idx", false);
  keys.require("reorder_and_upcast_attn", false);
  keys.require("tie_word_embeddings", true);
  keys.require("add_cross_attention", false);
  const json& epsilon = keys.value("layer_norm_epsilon");
  const bool is_ours =
      epsilon.is_null() || (epsilon.is_number() && epsilon.get<float>() == ops::kLayerNormEpsilon);
  if (!is_ours) {
    keys.problem(
        fmt::format("layer_norm_epsilon is {}; supported: {}", json_excerpt(epsilon), 1e-5));
  }
  constexpr const char* kDropouts[] = {"attn_pdrop", "embd_pdrop", "resid_pdrop"};
  model.has_dropout = any_dropout(keys, kDropouts, 0.1);
  return model;
}

// From here on llama and what is like it: mistral, qwen2, qwen3.
constexpr Size kLlamaLikeSizes[] = {
    {"num_hidden_layers", &ModelConfig::layers, kLayersMax},
    {"hidden_size", &ModelConfig::hidden, kHiddenMax},
    {"num_attention_heads", &ModelConfig::heads, kHeadsMax},
    {"intermediate_size", &ModelConfig::intermediate, kIntermediateMax},
    {"max_position_embeddings", &ModelConfig::context, kContextMax},
    {"vocab_size", &ModelConfig::vocabulary, kVocabularyMax},
};

// Of a key that is missing; one that is null means as many as heads, which is what 0 stands for.
std::int64_t default_kv_heads(const ModelConfig& config) {
  switch (config.family) {
    case Family::mistral:
      return 8;
    case Family::qwen2:
    case Family::qwen3:
      return 32;
    default:
      return 0;
  }
}

void read_llama_like_sizes(const HfKeys& keys, ModelConfig& config) {
  read_sizes(keys, kLlamaLikeSizes, config);
  constexpr const char* kKvHeads = "num_key_value_heads";
  config.kv_heads =
      keys.count(kKvHeads, 1, kHeadsMax, keys.has(kKvHeads) ? 0 : default_kv_heads(config));
  config.head_dim =
      keys.count("head_dim", 1, kHeadDimMax, config.family == Family::qwen3 ? kQwen3HeadDim : 0);
  resolve_shape(keys, config);
}

// How many layers have the window; transformers' layer_types say so, or the first
// max_window_layers have none.
std::int64_t windowed_layers(const HfKeys& keys, const ModelConfig& config) {
  const json& types = keys.value("layer_types");
  if (types.is_null()) {
    if (config.family == Family::mistral) return config.layers;
    return config.layers - std::min(config.layers, keys.count("max_window_layers", 0, INT32_MAX,
                                                              kDefaultMaxWindowLayers));
  }
  std::int64_t windowed = 0;
  for (const json& type : types) {
    if (type == "sliding_attention") {
      ++windowed;
    } else if (type != "full_attention") {
      keys.problem(fmt::format("layer_types has {}; supported: full_attention, sliding_attention",
                               json_excerpt(type)));
    }
  }
  if (!types.is_array() || std::ssize(types) != config.layers) {
    keys.problem(fmt::format("layer_types must have {} entries", config.layers));
  }
  return windowed;
}

void read_window(const HfKeys& keys, ModelConfig& config) {
  if (config.family == Family::llama) return;
  const bool is_used = config.family == Family::mistral || keys.flag("use_sliding_window", false);
  const bool has_one = !keys.missing("sliding_window") || !keys.has("sliding_window");
  const std::int64_t window =
      is_used && has_one ? keys.count("sliding_window", 1, INT32_MAX, kDefaultWindow) : 0;
  if (window == 0 && keys.missing("layer_types")) return;
  const std::int64_t windowed = windowed_layers(keys, config);
  const bool all = windowed == config.layers;
  const bool none = windowed == 0 && config.family != Family::mistral;
  if ((window > 0 && !all && !none) || (window == 0 && windowed > 0)) {
    keys.problem(fmt::format(
        "sliding_window is {} and {} of {} layers have one; supported: all of them or none",
        window == 0 ? "none" : std::to_string(window), windowed, config.layers));
  }
  if (all) config.window = std::min(window, kContextMax);
}

HfModel read_llama_like(const HfKeys& keys, Family family) {
  HfModel model;
  ModelConfig& config = model.config;
  apply_family(config, family);
  read_llama_like_sizes(keys, config);
  config.norm_epsilon = keys.number("rms_norm_eps", 0, 1e-6);
  config.head = keys.flag("tie_word_embeddings", false) ? HeadKind::tied : HeadKind::untied;
  config.rotary = read_hf_rotary(keys, config.head_dim, config.context);
  read_window(keys, config);
  keys.require("hidden_act", "silu");
  if (family != Family::qwen2) keys.require("attention_bias", false);
  keys.require("mlp_bias", false);
  keys.require("is_causal", true);
  constexpr const char* kDropouts[] = {"attention_dropout"};
  model.has_dropout = any_dropout(keys, kDropouts, 0);
  return model;
}

}  // namespace

HfModel parse_hf_config(std::string_view text) {
  const json root = json::parse(text, limit_depth, /*allow_exceptions=*/false);
  if (!root.is_object()) throw FormatError("it is no JSON object");
  std::vector<std::string> problems;
  const HfKeys keys(root, "", problems);
  const Family family = family_of(keys);
  HfModel model = family == Family::gpt2 ? read_gpt2(keys) : read_llama_like(keys, family);
  keys.require("quantization_config", nullptr);
  if (!problems.empty()) throw_error<ConfigError>("{}", fmt::join(problems, "; "));
  return model;
}

}  // namespace strata::models

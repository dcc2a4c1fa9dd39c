// The tiny models of every family whose numbers stand in tests/golden (see the README there).
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "models/model_config.h"
#include "models/presets.h"
#include "tests/support/golden.h"

namespace strata::models {

inline Family family_of(const std::string& model_type) {
  for (const Family family :
       {Family::gpt2, Family::llama, Family::mistral, Family::qwen2, Family::qwen3}) {
    if (model_type == name_of(family)) return family;
  }
  throw std::runtime_error(model_type);
}

inline RotaryScaling rotary_scaling(const nlohmann::json& rotary) {
  const std::string type = rotary.at("rope_type");
  if (type == "linear") return LinearRotary{rotary.at("factor")};
  if (type == "llama3") {
    return Llama3Rotary{rotary.at("factor"), rotary.at("low_freq_factor"),
                        rotary.at("high_freq_factor"),
                        rotary.at("original_max_position_embeddings")};
  }
  if (type == "yarn") {
    return YarnRotary{.factor = rotary.at("factor"),
                      .original_context = rotary.at("original_max_position_embeddings"),
                      .beta_fast = rotary.at("beta_fast"),
                      .beta_slow = rotary.at("beta_slow")};
  }
  return PlainRotary{};
}

// Of a golden's "config", a config.json as transformers writes it.
inline ModelConfig config_of(const nlohmann::json& json) {
  ModelConfig config;
  apply_family(config, family_of(json.at("model_type")));
  config.layers = json.at("num_hidden_layers");
  config.hidden = json.at("hidden_size");
  config.heads = json.at("num_attention_heads");
  config.kv_heads = json.at("num_key_value_heads");
  config.head_dim = json.value("head_dim", config.hidden / config.heads);
  config.intermediate = json.at("intermediate_size");
  config.context = json.at("max_position_embeddings");
  config.vocabulary = json.at("vocab_size");
  config.norm_epsilon = json.at("rms_norm_eps");
  config.head = json.at("tie_word_embeddings") ? HeadKind::tied : HeadKind::untied;
  config.window = json.value("sliding_window", 0);
  const nlohmann::json& rotary = json.at("rope_parameters");
  config.rotary = {config.head_dim, rotary.at("rope_theta"), rotary_scaling(rotary)};
  return config;
}

}  // namespace strata::models

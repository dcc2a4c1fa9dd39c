#include <nlohmann/json.hpp>

#include "kernels/ops/layernorm.h"
#include "models/families.h"
#include "models/hf_config.h"
#include "models/hf_rotary.h"
#include "models/json_value.h"

namespace strata::models {

using nlohmann::ordered_json;

namespace {

constexpr std::int64_t kGpt2EndOfText = 50256;  // of the published vocabulary

ordered_json gpt2_config(const ModelConfig& config) {
  static_assert(ops::kLayerNormEpsilon == 1e-5f);
  const bool is_published = config.vocabulary > kGpt2EndOfText;
  const ordered_json end = is_published ? ordered_json(kGpt2EndOfText) : ordered_json();
  return {{"activation_function", "gelu_new"},
          {"vocab_size", config.vocabulary},
          {"n_positions", config.context},
          {"n_ctx", config.context},
          {"n_embd", config.hidden},
          {"n_layer", config.layers},
          {"n_head", config.heads},
          {"n_inner", nullptr},
          {"layer_norm_epsilon", 1e-5},
          {"initializer_range", 0.02},
          {"attn_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"resid_pdrop", 0.0},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"reorder_and_upcast_attn", false},
          {"tie_word_embeddings", true},
          {"bos_token_id", end},
          {"eos_token_id", end}};
}

void add_window(const ModelConfig& config, ordered_json& json) {
  if (config.family == Family::llama) return;
  json["sliding_window"] = config.window > 0 ? ordered_json(config.window) : ordered_json();
  if (config.family == Family::mistral) return;
  json["use_sliding_window"] = config.window > 0;
  json["max_window_layers"] = config.window > 0 ? 0 : config.layers;
}

// Of llama, mistral, qwen2 and qwen3.
ordered_json llama_like_config(const ModelConfig& config) {
  ordered_json json = {{"hidden_act", "silu"},
                       {"vocab_size", config.vocabulary},
                       {"max_position_embeddings", config.context},
                       {"hidden_size", config.hidden},
                       {"intermediate_size", config.intermediate},
                       {"num_hidden_layers", config.layers},
                       {"num_attention_heads", config.heads},
                       {"num_key_value_heads", config.kv_heads},
                       {"head_dim", config.head_dim},
                       {"rms_norm_eps", config.norm_epsilon},
                       {"rope_theta", config.rotary->theta},
                       {"rope_scaling", hf_rope_scaling(*config.rotary)},
                       {"attention_dropout", 0.0},
                       {"initializer_range", 0.02},
                       {"tie_word_embeddings", config.head == HeadKind::tied},
                       {"bos_token_id", nullptr},
                       {"eos_token_id", nullptr}};
  if (config.family != Family::qwen2) json["attention_bias"] = false;
  if (config.family == Family::llama) json["mlp_bias"] = false;
  add_window(config, json);
  return json;
}

ordered_json config_json(const ModelConfig& config, Dtype dtype) {
  const FamilyTraits& family = traits_of(config.family);
  ordered_json json = {{"architectures", {family.architecture}},
                       {"model_type", family.name},
                       {"torch_dtype", dtype == Dtype::f32 ? "float32" : "bfloat16"},
                       {"use_cache", true}};
  json.update(config.family == Family::gpt2 ? gpt2_config(config) : llama_like_config(config));
  return json;
}

std::string text_of(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string hf_config_text(const ModelConfig& config, Dtype dtype) {
  return text_of(config_json(config, dtype));
}

std::string merged_hf_config(const ModelConfig& config, Dtype dtype, std::string_view original) {
  ordered_json ours = config_json(config, dtype);
  ordered_json merged = ordered_json::parse(original, limit_depth);
  merged.erase("dtype");  // by which newer versions call torch_dtype
  for (const char* const key : {"architectures", "model_type", "torch_dtype"}) {
    merged[key] = ours[key];
  }
  const auto is_given = [&](const std::string& key) {
    return merged.contains(key) && !merged[key].is_null();
  };
  if (is_given("rope_parameters")) {  // which hold both
    ours.erase("rope_theta");
    ours.erase("rope_scaling");
  }
  for (const auto& [key, value] : ours.items()) {
    if (!is_given(key)) merged[key] = value;
  }
  return text_of(merged);
}

}  // namespace strata::models

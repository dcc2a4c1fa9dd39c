#include "models/hf_tensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/ops/layernorm.h"

namespace strata::models {
namespace {

constexpr std::string_view kConv1dSuffixes[] = {".c_attn.weight", ".c_proj.weight", ".c_fc.weight"};
constexpr std::string_view kTables[] = {"wte.weight", "wpe.weight"};
constexpr std::int64_t kEndOfText = 50256;  // of the published vocabulary

bool is_conv1d(std::string_view name) {
  return std::ranges::any_of(kConv1dSuffixes,
                             [&](std::string_view suffix) { return name.ends_with(suffix); });
}

}  // namespace

std::vector<std::int64_t> tensor_shape(std::string_view name, std::int64_t rows,
                                       std::int64_t columns) {
  const bool matrix = is_conv1d(name) || std::ranges::find(kTables, name) != std::end(kTables);
  if (matrix) return {rows, columns};
  return {columns};
}

HfTensor hf_tensor(std::string_view name, std::int64_t rows, std::int64_t columns) {
  HfTensor tensor{"transformer." + std::string(name), tensor_shape(name, rows, columns),
                  is_conv1d(name)};
  if (tensor.transposed) std::ranges::reverse(tensor.shape);
  return tensor;
}

std::string hf_config_text(const ModelConfig& config, Dtype dtype) {
  nlohmann::ordered_json json = {
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", "gpt2"},
      {"activation_function", "gelu_new"},
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
      {"use_cache", true},
      {"torch_dtype", dtype == Dtype::f32 ? "float32" : "bfloat16"},
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
  };
  static_assert(ops::kLayerNormEpsilon == 1e-5f);
  if (config.vocabulary > kEndOfText) {
    json["bos_token_id"] = kEndOfText;
    json["eos_token_id"] = kEndOfText;
  }
  return json.dump(2) + "\n";
}

}  // namespace strata::models

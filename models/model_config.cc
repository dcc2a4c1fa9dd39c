#include "models/model_config.h"

namespace strata::models {

const char* name_of(Family family) {
  switch (family) {
    case Family::gpt2:
      return "gpt2";
    case Family::llama:
      return "llama";
    case Family::mistral:
      return "mistral";
    case Family::qwen2:
      return "qwen2";
    case Family::qwen3:
      return "qwen3";
  }
  return "";
}

void apply_family(ModelConfig& config, Family family) {
  const bool gpt2 = family == Family::gpt2;
  config.family = family;
  config.norm = gpt2 ? NormKind::layer_norm : NormKind::rms_norm;
  config.mlp = gpt2 ? MlpKind::gelu : MlpKind::swiglu;
  config.biases = gpt2 ? Biases::all : family == Family::qwen2 ? Biases::qkv : Biases::none;
  config.qk_norm = family == Family::qwen3 ? QkNorm::per_head : QkNorm::none;
}

std::int64_t ModelConfig::parameters() const {
  const std::int64_t norms = hidden * (norm == NormKind::layer_norm ? 2 : 1);
  const std::int64_t qkv = channels() + 2 * kv_channels();
  const std::int64_t mlp_in = intermediate * (mlp == MlpKind::swiglu ? 2 : 1);
  std::int64_t block = 2 * norms + hidden * (qkv + channels() + mlp_in + intermediate);
  if (biases != Biases::none) block += qkv;
  if (biases == Biases::all) block += hidden + mlp_in + hidden;
  if (qk_norm == QkNorm::per_head) block += 2 * head_dim;
  const std::int64_t tables =
      vocabulary * (head == HeadKind::tied ? 1 : 2) + (learned_positions() ? context : 0);
  return tables * hidden + layers * block + norms;
}

}  // namespace strata::models

#include "models/model_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "models/families.h"

namespace strata::models {

const FamilyTraits& traits_of(Family family) {
  const auto found = std::ranges::find(kFamilies, family, &FamilyTraits::family);
  STRATA_CHECK(found != kFamilies.end());
  return *found;
}

const char* name_of(Family family) { return traits_of(family).name; }

void apply_family(ModelConfig& config, Family family) {
  const FamilyTraits& traits = traits_of(family);
  config.family = family;
  config.norm = traits.norm;
  config.mlp = traits.mlp;
  config.biases = traits.biases;
  config.qk_norm = traits.qk_norm;
}

std::vector<std::string> resolve_shape(ModelConfig& config) {
  constexpr std::int64_t kIntermediateMultiple = 64;
  std::vector<std::string> problems;
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.heads % config.kv_heads != 0) {
    problems.push_back(fmt::format("heads ({}) must be a multiple of key/value heads ({})",
                                   config.heads, config.kv_heads));
  }
  if (config.head_dim == 0) {
    config.head_dim = config.hidden / config.heads;
    if (config.hidden % config.heads != 0) {
      problems.push_back(fmt::format("hidden size ({}) must be a multiple of heads ({})",
                                     config.hidden, config.heads));
    }
  }
  if (config.head_dim > kHeadDimMax) {
    problems.push_back(
        fmt::format("heads have {} channels; supported: up to {}", config.head_dim, kHeadDimMax));
  }
  if (config.family != Family::gpt2 && config.head_dim % 2 != 0) {
    problems.push_back(fmt::format("heads have {} channels; rotary positions need an even number",
                                   config.head_dim));
  }
  if (config.intermediate == 0) {
    config.intermediate = config.mlp == MlpKind::gelu
                              ? 4 * config.hidden
                              : round_up(ceil_div(8 * config.hidden, 3), kIntermediateMultiple);
  }
  return problems;
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

// The units of a GPT-2: which tensors there are, in which order, and where.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/base/bytes.h"
#include "models/gpt2_config.h"

namespace strata::models {
namespace {

constexpr float kInitialStd = 0.02f;

// Appends a tensor at the next aligned offset.
TensorSpec& append(UnitSpec& unit, std::string name, std::int64_t rows, std::int64_t cols) {
  TensorSpec tensor;
  tensor.name = std::move(name);
  tensor.rows = rows;
  tensor.cols = cols;
  tensor.offset_elements = round_up(unit.elements, kTensorAlignmentElements);
  unit.elements = tensor.offset_elements + tensor.elements();
  return unit.tensors.emplace_back(std::move(tensor));
}

void append_matrix(UnitSpec& unit, std::string name, std::int64_t rows, std::int64_t cols,
                   float initial_std) {
  TensorSpec& tensor = append(unit, std::move(name), rows, cols);
  tensor.decay = true;
  tensor.initial = Initial::normal;
  tensor.initial_std = initial_std;
}

void append_linear(UnitSpec& unit, const std::string& name, std::int64_t out, std::int64_t in,
                   float initial_std) {
  append_matrix(unit, name + ".weight", out, in, initial_std);
  append(unit, name + ".bias", 1, out).initial = Initial::zeros;
}

void append_norm(UnitSpec& unit, const std::string& name, std::int64_t channels) {
  append(unit, name + ".weight", 1, channels).initial = Initial::ones;
  append(unit, name + ".bias", 1, channels).initial = Initial::zeros;
}

UnitSpec table_unit(std::string name, UnitRole role, std::string tensor, std::int64_t first_row,
                    std::int64_t rows, std::int64_t cols) {
  UnitSpec unit{std::move(name), role, 0, {}};
  append_matrix(unit, std::move(tensor), rows, cols, kInitialStd);
  unit.tensors.back().first_row = first_row;
  return unit;
}

}  // namespace

std::int64_t gpt2_chunk_rows(const Gpt2Config& config) {
  const std::int64_t rows = kTableChunkElements / config.hidden;
  const std::int64_t whole = rows - rows % kTensorAlignmentElements;
  return std::max(whole, kTensorAlignmentElements);
}

UnitSpec gpt2_block_unit(const Gpt2Config& config, std::int64_t layer) {
  const std::int64_t c = config.hidden;
  // GPT-2's scheme: the 2 L projections that add to the residual stream share its variance.
  const float residual_std = kInitialStd / std::sqrt(2.0f * static_cast<float>(config.layers));
  const std::string name = fmt::format("h.{}", layer);
  UnitSpec unit{name, UnitRole::block, 0, {}};
  // In the order of BlockTensor.
  append_norm(unit, name + ".ln_1", c);
  append_linear(unit, name + ".attn.c_attn", 3 * c, c, kInitialStd);
  append_linear(unit, name + ".attn.c_proj", c, c, residual_std);
  append_norm(unit, name + ".ln_2", c);
  append_linear(unit, name + ".mlp.c_fc", 4 * c, c, kInitialStd);
  append_linear(unit, name + ".mlp.c_proj", c, 4 * c, residual_std);
  return unit;
}

UnitSpec gpt2_final_norm_unit(const Gpt2Config& config) {
  UnitSpec unit{"ln_f", UnitRole::final_norm, 0, {}};
  append_norm(unit, "ln_f", config.hidden);
  return unit;
}

std::vector<UnitSpec> gpt2_units(const Gpt2Config& config) {
  std::vector<UnitSpec> units;
  const std::int64_t chunk_rows = gpt2_chunk_rows(config);
  for (std::int64_t first = 0; first < config.vocabulary; first += chunk_rows) {
    units.push_back(table_unit(fmt::format("wte.{}", first / chunk_rows), UnitRole::token_table,
                               "wte.weight", first, std::min(chunk_rows, config.vocabulary - first),
                               config.hidden));
  }
  units.push_back(
      table_unit("wpe", UnitRole::position_table, "wpe.weight", 0, config.context, config.hidden));
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    units.push_back(gpt2_block_unit(config, layer));
  }
  units.push_back(gpt2_final_norm_unit(config));
  return units;
}

}  // namespace strata::models

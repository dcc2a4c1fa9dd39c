// UnitSpec: what a model is to the tiers: an ordered list of units, each a flat buffer of tensors.
//
// Units are listed in the order of their first use in a forward. A table larger than
// kTableChunkElements is several units, row range after row range, so that no unit is much larger
// than a block and the head works on one chunk of the vocabulary at a time. The size of a chunk
// comes from the model alone (it orders sums).
// Tensors start at multiples of kTensorAlignmentElements, but for those that are used as one with
// the tensor before (model_units.h, TensorRun); the gaps are zero and stay zero.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::models {

inline constexpr std::int64_t kTensorAlignmentElements = 64;
inline constexpr std::int64_t kTableChunkElements = 4 << 20;

enum class UnitRole : std::uint8_t { token_table, position_table, block, final_norm, head_table };
enum class Initial : std::uint8_t { normal, zeros, ones };

struct TensorSpec {
  std::string name;       // "h.0.attn.c_attn.weight", "layers.0.mlp.up_proj.weight"
  std::int64_t rows = 0;  // of this piece; 1 for vectors
  std::int64_t cols = 0;
  std::int64_t first_row = 0;        // in the whole tensor (pieces of a table)
  std::int64_t offset_elements = 0;  // in the unit
  bool decay = false;                // weight decay applies (matrices; not biases, norms)
  Initial initial = Initial::zeros;
  float initial_std = 0;  // Initial::normal
  std::int64_t elements() const { return rows * cols; }
};

struct UnitSpec {
  std::string name;  // "wte.0", "h.3", "layers.3", "norm"
  UnitRole role = UnitRole::block;
  std::int64_t elements = 0;  // with gaps
  std::vector<TensorSpec> tensors;
};

}  // namespace strata::models

// Rotary position embedding (Su et al. 2021), in place on the heads of a projection.
//   x (M, heads × head_dim): a view of q, of k, or of both where they lie side by side
// In Hugging Face's layout the halves of a head are the pairs that turn (rotate_half), not
// neighbouring elements: with x1, x2 the halves and cos, sin those of the row's position,
//   x1' = x1 · cos - x2 · sin,  x2' = x2 · cos + x1 · sin
// in f32, rounded once to the dtype of x (Hugging Face's bf16 models also round cos, sin and the
// products). The tables carry the scaling of angles and of attention (models/rotary_tables.h).
#pragma once

#include <cstdint>

#include "kernels/device/device.h"
#include "kernels/ops/view.h"

namespace strata::ops {

// cos and sin (P, head_dim / 2) f32, dense, of the angles at positions 0 … P-1, in device memory.
struct RotaryTables {
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int64_t positions = 0;  // P
  std::int64_t head_dim = 0;
};

// positions (M), each in [0, P): a document packed into a sequence begins again at 0.
void rotary_forward(Stream& stream, Matrix x, const RotaryTables& tables,
                    const std::int32_t* positions);

// dx holds the gradient of the rotated x and receives that of x: the transposed matrix, a turn back
// by the same angle.
void rotary_backward(Stream& stream, Matrix dx, const RotaryTables& tables,
                     const std::int32_t* positions);

}  // namespace strata::ops

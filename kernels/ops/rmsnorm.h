// Root mean square normalisation (Zhang & Sennrich 2019) of groups of consecutive columns.
//   y = x * rstd * weight,  rstd = 1 / sqrt(mean(x^2) + epsilon)
// A group is as wide as the weight, W, and C a multiple of it: W = C normalises whole rows; W =
// head_dim normalises each head of a (M, heads × head_dim) view of a projection (Qwen3's QK-norm).
//
// Sums in f32 in a fixed order of 16 lanes; x, y, dx and weight have one dtype; `dy` may be f32
// where x is bf16. y is rounded once, at the end: in bf16 Hugging Face's models round x * rstd as
// well, so numbers are compared with theirs in f32.
#pragma once

#include "kernels/device/device.h"
#include "kernels/ops/view.h"

namespace strata::ops {

// x, y (M, C); weight (1, W). rstd (M, C / W) is kept for the backward. y may be x.
void rmsnorm_forward(Stream& stream, Matrix y, float* rstd, Matrix x, Matrix weight, float epsilon);

// dx (M, C) = or += the gradient through the normalisation; with Into::overwrite dx may be x or dy
// itself. dweight (1, W) f32 = or += the groups of all rows, added in order in fixed sets.
void rmsnorm_backward(Stream& stream, Matrix dx, Into dx_into, Matrix dweight, Into dweight_into,
                      Matrix dy, Matrix x, Matrix weight, const float* rstd);

}  // namespace strata::ops

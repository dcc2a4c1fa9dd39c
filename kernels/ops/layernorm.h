// Layer normalisation (Ba, Kiros & Hinton 2016) over the last dimension.
//   y = (x - mean) * rstd * weight + bias,  rstd = 1 / sqrt(var + epsilon), biased variance
// Sums in f32 in a fixed order of 16 lanes; x, y, dx in one dtype, weight and bias in that dtype,
// mean and rstd f32. `dy` may be f32 where x is bf16.
#pragma once

#include "kernels/device/device.h"
#include "kernels/ops/view.h"

namespace strata::ops {

inline constexpr float kLayerNormEpsilon = 1e-5f;

// x, y (M, C); weight, bias (C); mean, rstd (M) are kept for the backward.
void layernorm_forward(Stream& stream, Matrix y, float* mean, float* rstd, Matrix x,
                       const void* weight, const void* bias);

// dx (M, C) = or += the gradient through the normalisation; dx may be x itself with
// Into::overwrite. dweight, dbias (C) f32 = or += (`parameters`), rows added in order in fixed
// groups.
void layernorm_backward(Stream& stream, Matrix dx, Into dx_into, float* dweight, float* dbias,
                        Into parameters, Matrix dy, Matrix x, const void* weight, const float* mean,
                        const float* rstd);

}  // namespace strata::ops

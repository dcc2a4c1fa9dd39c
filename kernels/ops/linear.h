// Linear layers: y = x·wᵀ + b, with w (N, K) row-major as in torch.nn.Linear.
//
// x, w, y, dx, dy, bias have one dtype (f32 or bf16); y and dx may be f32 with bf16 inputs.
// Products are accumulated in f32; bf16 results are rounded once, to nearest even. Weight and bias
// gradients are f32. Which arithmetic multiplies (bf16, or f32 on widened bf16) is the device's
// matmul table (cpu_ops.h). The partition of the work into tiles depends on the shape alone, so
// bits do not depend on the number of threads. Every size is at least 1. Not supported: mixed
// dtypes other than the above, transposed x.
#pragma once

#include "kernels/device/device.h"
#include "kernels/ops/view.h"

namespace strata::ops {

// y (M, N) = x (M, K) · w (N, K)ᵀ + bias (N). `bias` may be null.
void linear_forward(Stream& stream, Matrix y, Matrix x, Matrix w, const void* bias);

// dx (M, K) = dy (M, N) · w (N, K); Into::add needs dx in f32.
void linear_backward_input(Stream& stream, Matrix dx, Matrix dy, Matrix w, Into into);

// dw (N, K) f32 = or += dyᵀ (N, M) · x (M, K); dbias (N) f32 likewise the column sums of dy: rows
// are added in order in groups of 256, then the groups in order. `dbias` may be null.
void linear_backward_weight(Stream& stream, Matrix dw, float* dbias, Matrix dy, Matrix x,
                            Into into);

// The first layer of an MLP: h (M, N) = x · wᵀ + bias, which backward needs, and y (M, N) = gelu(h)
// (elementwise.h). A device that makes both at once takes gelu of h before h is rounded.
void linear_gelu_forward(Stream& stream, Matrix y, Matrix h, Matrix x, Matrix w, const void* bias);

// Of the layer behind it, w (N, K), back to h: dh (M, K) = (dy (M, N) · w) ∘ gelu'(h (M, K)).
void linear_gelu_backward_input(Stream& stream, Matrix dh, Matrix dy, Matrix w, Matrix h);

}  // namespace strata::ops

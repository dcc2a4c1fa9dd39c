// Elementwise ops. All operands of one call have one dtype; arithmetic in f32, one rounding to
// nearest even.
#pragma once

#include "kernels/device/device.h"
#include "kernels/ops/view.h"

namespace strata::ops {

// y = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GPT-2's "gelu_new" (Hendrycks & Gimpel
// 2016).
void gelu_forward(Stream& stream, Matrix y, Matrix x);
// dx = dy * gelu'(x); dx may be dy.
void gelu_backward(Stream& stream, Matrix dx, Matrix dy, Matrix x);

// y = silu(gate) * up, silu(x) = x / (1 + e^-x) (Shazeer 2020); y may be gate or up. The operands
// (M, F) may be views of the halves of one (M, 2F) projection.
void swiglu_forward(Stream& stream, Matrix y, Matrix gate, Matrix up);
// dgate = dy * up * silu'(gate), dup = dy * silu(gate); either may be dy, gate or up.
void swiglu_backward(Stream& stream, Matrix dgate, Matrix dup, Matrix dy, Matrix gate, Matrix up);

// y = a + b; y may be a or b.
void add(Stream& stream, Matrix y, Matrix a, Matrix b);

}  // namespace strata::ops

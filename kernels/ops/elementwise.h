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

// y = a + b; y may be a or b.
void add(Stream& stream, Matrix y, Matrix a, Matrix b);

}  // namespace strata::ops

// Linear layers on the cpu device; contracts in kernels/ops/linear.h, whose functions have checked
// the operands.
#pragma once

#include "kernels/device/cpu_device.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu {

void linear_forward(CpuStream& stream, Matrix y, Matrix x, Matrix w, const void* bias);
void linear_backward_input(CpuStream& stream, Matrix dx, Matrix dy, Matrix w, Into into);
void linear_backward_weight(CpuStream& stream, Matrix dw, float* dbias, Matrix dy, Matrix x,
                            Into into);

}  // namespace strata::ops::cpu

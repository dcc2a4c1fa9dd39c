// linear.h on the CPU: the bodies of its launches, run on the stream's thread.
#pragma once

#include "kernels/device/cpu_device.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu {

void linear_forward(CpuDevice& device, const Matrix& y, const Matrix& x, const Matrix& w,
                    const void* bias);
void linear_backward_input(CpuDevice& device, const Matrix& dx, const Matrix& dy, const Matrix& w,
                           Into into);
void linear_backward_weight(CpuDevice& device, const Matrix& dw, float* dbias, const Matrix& dy,
                            const Matrix& x, Into into);

}  // namespace strata::ops::cpu

// elementwise.h on the CPU: the bodies of its launches, run on the stream's thread.
#pragma once

#include "kernels/device/cpu_device.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu {

void gelu_forward(CpuDevice& device, const Matrix& y, const Matrix& x);
void gelu_backward(CpuDevice& device, const Matrix& dx, const Matrix& dy, const Matrix& x);
void swiglu_forward(CpuDevice& device, const Matrix& y, const Matrix& gate, const Matrix& up);
void swiglu_backward(CpuDevice& device, const Matrix& dgate, const Matrix& dup, const Matrix& dy,
                     const Matrix& gate, const Matrix& up);
void add(CpuDevice& device, const Matrix& y, const Matrix& a, const Matrix& b);

}  // namespace strata::ops::cpu

// rmsnorm.h on the CPU: the bodies of its launches, run on the stream's thread.
#pragma once

#include "kernels/device/cpu_device.h"
#include "kernels/ops/cpu/kernel_table.h"

namespace strata::ops::cpu {

void rmsnorm_forward(CpuDevice& device, const RmsNormForward& op);
void rmsnorm_backward(CpuDevice& device, const RmsNormBackward& op);

}  // namespace strata::ops::cpu

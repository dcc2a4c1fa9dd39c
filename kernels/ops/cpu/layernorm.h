// layernorm.h on the CPU: the bodies of its launches, run on the stream's thread.
#pragma once

#include "kernels/device/cpu_device.h"
#include "kernels/ops/cpu/kernel_table.h"

namespace strata::ops::cpu {

void layernorm_forward(CpuDevice& device, const LayerNormForward& op);
void layernorm_backward(CpuDevice& device, const LayerNormBackward& op);

}  // namespace strata::ops::cpu

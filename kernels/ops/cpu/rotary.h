// rotary.h on the CPU: the body of its launches, run on the stream's thread.
#pragma once

#include "kernels/device/cpu_device.h"
#include "kernels/ops/cpu/kernel_table.h"

namespace strata::ops::cpu {

// A position outside the tables is a programmer error.
void rotate(CpuDevice& device, const Rotary& op);

}  // namespace strata::ops::cpu

// attention.h on the CPU: the bodies of its launches, run on the stream's thread; and the scratch
// memory that they need of each worker.
#pragma once

#include <cstdint>

#include "kernels/device/cpu_device.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/cpu_ops.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu {

void attention_forward(CpuDevice& device, const AttentionShape& shape, const Matrix& out,
                       float* log_sum_exp, const Matrix& qkv);
void attention_backward(CpuDevice& device, const AttentionShape& shape, const Matrix& dqkv,
                        float* row_dots, const Matrix& dout, const Matrix& qkv, const Matrix& out,
                        const float* log_sum_exp);

// Of one worker.
std::int64_t attention_scratch_bytes(const CpuOpsLimits& limits);

}  // namespace strata::ops::cpu

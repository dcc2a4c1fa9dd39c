// Tiled causal attention on the cpu device; contracts in kernels/ops/attention.h, whose functions
// have checked the operands.
#pragma once

#include "kernels/device/cpu_device.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/cpu_ops.h"

namespace strata::ops::cpu {

void attention_forward(CpuStream& stream, const AttentionShape& shape, Matrix out,
                       float* log_sum_exp, Matrix qkv);
void attention_backward(CpuStream& stream, const AttentionShape& shape, Matrix dqkv,
                        float* row_dots, Matrix dout, Matrix qkv, Matrix out,
                        const float* log_sum_exp);

// Scratch of one worker.
std::int64_t attention_scratch_bytes(const CpuOpsLimits& limits);

}  // namespace strata::ops::cpu

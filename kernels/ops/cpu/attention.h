// attention.h on the CPU: the bodies of its launches, run on the stream's thread; and the scratch
// memory that they need.
#pragma once

#include <cstdint>

#include "kernels/device/cpu_device.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/cpu_ops.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu {

struct AttentionBackward {
  Qkv gradients;
  float* row_dots;
  Matrix dout;
  Qkv qkv;
  Matrix out;
  const float* log_sum_exp;
};

void attention_forward(CpuDevice& device, const AttentionShape& shape,
                       const AttentionOptions& options, const Matrix& out, float* log_sum_exp,
                       const Qkv& qkv);
void attention_with_cache(CpuDevice& device, const AttentionShape& shape,
                          const AttentionOptions& options, const Matrix& out, const Qkv& qkv,
                          const KvCache& cache, std::int64_t past);
void attention_backward(CpuDevice& device, const AttentionShape& shape,
                        const AttentionOptions& options, const AttentionBackward& operands);

// Of one worker.
std::int64_t attention_scratch_bytes(const CpuOpsLimits& limits);
// Of one backward: the f32 sums of as many KV heads as keep the workers busy.
std::int64_t attention_sums_bytes(const CpuOpsLimits& limits, int worker_slots);

}  // namespace strata::ops::cpu

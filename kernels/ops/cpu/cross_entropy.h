// cross_entropy.h on the CPU: the bodies of its launches, run on the stream's thread.
#pragma once

#include <cstdint>

#include "kernels/device/cpu_device.h"
#include "kernels/ops/cpu/kernel_table.h"
#include "kernels/ops/cross_entropy.h"

namespace strata::ops::cpu {

void softmax_stats_init(const SoftmaxStats& stats, std::int64_t rows);
void softmax_stats_update(CpuDevice& device, const SoftmaxUpdate& op);
void cross_entropy_loss(double* loss_sum, const SoftmaxStats& stats, const std::int32_t* targets,
                        std::int64_t rows);
void count_targets(TargetCounts* counts, const SoftmaxStats& stats, const std::int32_t* targets,
                   std::int64_t rows);
void cross_entropy_backward(CpuDevice& device, const CrossEntropyBackward& op);

}  // namespace strata::ops::cpu

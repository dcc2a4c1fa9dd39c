#include "kernels/ops/cpu/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops/cpu/op_state.h"
#include "kernels/ops/cpu/tiles.h"

namespace strata::ops::cpu {
namespace {

// Rows of a whole chunk of the vocabulary are long.
constexpr std::int64_t kTileLogitRows = 16;

}  // namespace

void softmax_stats_init(const SoftmaxStats& stats, std::int64_t rows) {
  annotate_write(stats.max, rows * kF32Bytes);
  annotate_write(stats.sum_exp, rows * kF32Bytes);
  annotate_write(stats.target_logit, rows * kF32Bytes);
  std::fill_n(stats.max, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(stats.sum_exp, rows, 0.0f);
  std::fill_n(stats.target_logit, rows, 0.0f);
}

void softmax_stats_update(CpuDevice& device, const SoftmaxUpdate& op) {
  const std::int64_t rows = op.logits.rows;
  annotate_read(op.logits);
  annotate_read(op.targets, rows * kIdBytes);
  annotate_write(op.max, rows * kF32Bytes);
  annotate_write(op.sum_exp, rows * kF32Bytes);
  annotate_write(op.target_logit, rows * kF32Bytes);

  const auto update = kernel_table(op_state(device).isa).cross_entropy.update;
  for_each_range(device, rows, kTileLogitRows,
                 [&](std::int64_t begin, std::int64_t end) { update(op, begin, end); });
}

void cross_entropy_loss(double* loss_sum, const SoftmaxStats& stats, const std::int32_t* targets,
                        std::int64_t rows) {
  annotate_read(stats.max, rows * kF32Bytes);
  annotate_read(stats.sum_exp, rows * kF32Bytes);
  annotate_read(stats.target_logit, rows * kF32Bytes);
  annotate_read(targets, rows * kIdBytes);
  annotate_write(loss_sum, std::int64_t{sizeof *loss_sum});
  for (std::int64_t row = 0; row < rows; ++row) {
    if (targets[row] == kIgnoredTarget) continue;
    *loss_sum += std::log(static_cast<double>(stats.sum_exp[row])) +
                 (static_cast<double>(stats.max[row]) - stats.target_logit[row]);
  }
}

void count_targets(TargetCounts* counts, const SoftmaxStats& stats, const std::int32_t* targets,
                   std::int64_t rows) {
  annotate_read(stats.max, rows * kF32Bytes);
  annotate_read(stats.target_logit, rows * kF32Bytes);
  annotate_read(targets, rows * kIdBytes);
  annotate_write(counts, std::int64_t{sizeof *counts});
  for (std::int64_t row = 0; row < rows; ++row) {
    if (targets[row] == kIgnoredTarget) continue;
    ++counts->targets;
    if (stats.target_logit[row] >= stats.max[row]) ++counts->correct;  // not of a NaN
  }
}

void cross_entropy_backward(CpuDevice& device, const CrossEntropyBackward& op) {
  const std::int64_t rows = op.logits.rows;
  annotate_read(op.logits);
  annotate_read(op.targets, rows * kIdBytes);
  annotate_read(op.max, rows * kF32Bytes);
  annotate_read(op.sum_exp, rows * kF32Bytes);
  annotate_write(op.dlogits);

  const auto backward = kernel_table(op_state(device).isa).cross_entropy.backward[op.dlogits.dtype];
  for_each_range(device, rows, kTileLogitRows,
                 [&](std::int64_t begin, std::int64_t end) { backward(op, begin, end); });
}

}  // namespace strata::ops::cpu

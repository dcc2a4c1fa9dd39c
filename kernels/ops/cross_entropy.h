// Softmax cross-entropy over a vocabulary that is visited in chunks, so that the full logits never
// exist: one walk over the chunks gathers each row's statistics, a second one (with the logits of a
// chunk computed again) gives the gradient.
//
// Logits are f32. A target of kIgnoredTarget counts for nothing. Rows are independent; sums over
// columns are f32 in a fixed order of 16 lanes, chunk after chunk.
#pragma once

#include "kernels/device/device.h"
#include "kernels/ops/view.h"

namespace strata::ops {

inline constexpr std::int32_t kIgnoredTarget = -1;

// Per row, all (M) f32 in device memory.
struct SoftmaxStats {
  float* max = nullptr;
  float* sum_exp = nullptr;  // sum of exp(logit - max)
  float* target_logit = nullptr;
};

void softmax_stats_init(Stream& stream, SoftmaxStats stats, std::int64_t rows);

// logits (M, columns of the chunk); column c is vocabulary entry first_id + c.
void softmax_stats_update(Stream& stream, SoftmaxStats stats, Matrix logits,
                          const std::int32_t* targets, std::int64_t first_id);

// Rows with a target, and those of them where no entry has a larger logit than the target's.
struct TargetCounts {
  std::int64_t targets = 0;
  std::int64_t correct = 0;
};

// *loss_sum (f64, device memory) += sum over rows of -log softmax(target), in row order. Adds to
// *counts (device memory) too, unless it is null.
void cross_entropy_loss(Stream& stream, double* loss_sum, SoftmaxStats stats,
                        const std::int32_t* targets, std::int64_t rows,
                        TargetCounts* counts = nullptr);

// dlogits (M, columns) = scale * (softmax - onehot(target)), 0 in ignored rows. dlogits may be of
// any dtype, and may be the logits themselves when it is f32.
void cross_entropy_backward(Stream& stream, Matrix dlogits, Matrix logits, SoftmaxStats stats,
                            const std::int32_t* targets, std::int64_t first_id, float scale);

}  // namespace strata::ops

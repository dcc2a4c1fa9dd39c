// cross_entropy.h on a cuda device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/view.h"

namespace strata::ops::cuda {

void softmax_stats_init(cudaStream_t stream, const SoftmaxStats& stats, std::int64_t rows);
void softmax_stats_update(cudaStream_t stream, const SoftmaxStats& stats, const Matrix& logits,
                          const std::int32_t* targets, std::int64_t first_id);
void cross_entropy_loss(cudaStream_t stream, double* loss_sum, const SoftmaxStats& stats,
                        const std::int32_t* targets, std::int64_t rows, TargetCounts* counts);
void cross_entropy_backward(cudaStream_t stream, const Matrix& dlogits, const Matrix& logits,
                            const SoftmaxStats& stats, const std::int32_t* targets,
                            std::int64_t first_id, float scale);

}  // namespace strata::ops::cuda

// attention.h on a cuda device: tiled kernels of our own (Dao et al. 2022; Dao 2023). A block owns
// some rows of queries, or in the gradients of k and v some rows of keys, and goes through the
// other side tile by tile, so every sum is one block's, in a fixed order: no atomics, and bits that
// depend on the shape alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/ops/attention.h"
#include "kernels/ops/cuda/scratch.h"

namespace strata::ops::cuda {

inline constexpr std::int64_t kAttentionHeadDimMax = 256;

// A document start beyond its token is not refused here as on the cpu device: the token sees
// nothing, and its outputs are NaN.
void attention_forward(cudaStream_t stream, const AttentionShape& shape,
                       const AttentionOptions& options, const Matrix& out, float* log_sum_exp,
                       const Qkv& qkv);
void attention_backward(cudaStream_t stream, const AttentionShape& shape,
                        const AttentionOptions& options, const Qkv& gradients, float* row_dots,
                        const Matrix& dout, const Qkv& qkv, const Matrix& out,
                        const float* log_sum_exp);
// Of one token by kernels of its own (attention_decode.h), which use `scratch`.
void attention_with_cache(cudaStream_t stream, const Scratch& scratch, const AttentionShape& shape,
                          const AttentionOptions& options, const Matrix& out, const Qkv& qkv,
                          const KvCache& cache, std::int64_t past);

}  // namespace strata::ops::cuda

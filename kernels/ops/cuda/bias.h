// The bias of linear layers beside the matrix products: broadcast to rows, and its gradient.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/ops/cuda/scratch.h"
#include "kernels/ops/view.h"

namespace strata::ops::cuda {

// Every row of y (M, N) becomes bias (N).
void bias_into_rows(cudaStream_t stream, const Matrix& y, const void* bias, Dtype bias_dtype);

// A group has at least kBiasGroupRowsMin rows; there are as many as keep a GPU busy.
inline constexpr std::int64_t kBiasGroupRowsMin = 32;
inline constexpr std::int64_t kBiasGroupsMax = 128;
inline constexpr std::int64_t kBiasSums = 1 << 18;  // of all groups, unless one has more columns

// dbias (N) = or += the column sums of dy (M, N): rows in order in groups of equal length, then the
// groups in order.
void bias_gradient(cudaStream_t stream, const Scratch& scratch, float* dbias, const Matrix& dy,
                   Into into);

}  // namespace strata::ops::cuda

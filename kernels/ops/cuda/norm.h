// layernorm.h and rmsnorm.h on a cuda device. A row, or a group of its columns, is normalised by
// the lanes of part of a warp, by a warp, or by a block, as its width asks for. Its sums: each
// thread's pieces in order, then lanes by halves, then warps in order.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/ops/cuda/scratch.h"
#include "kernels/ops/view.h"

namespace strata::ops::cuda {

void layernorm_forward(cudaStream_t stream, const Matrix& y, float* mean, float* rstd,
                       const Matrix& x, const void* weight, const void* bias);
void layernorm_backward(cudaStream_t stream, const Scratch& scratch, const Matrix& dx, Into dx_into,
                        float* dweight, float* dbias, Into parameters, const Matrix& dy,
                        const Matrix& x, const void* weight, const float* mean, const float* rstd);

void rmsnorm_forward(cudaStream_t stream, const Matrix& y, float* rstd, const Matrix& x,
                     const Matrix& weight, float epsilon);
void rmsnorm_backward(cudaStream_t stream, const Scratch& scratch, const Matrix& dx, Into dx_into,
                      const Matrix& dweight, Into dweight_into, const Matrix& dy, const Matrix& x,
                      const Matrix& weight, const float* rstd);

// For the backward of rows of up to `cols` columns.
std::int64_t norm_scratch_bytes(std::int64_t cols);

}  // namespace strata::ops::cuda

// embedding.h on a cuda device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/ops/cuda/scratch.h"
#include "kernels/ops/view.h"

namespace strata::ops::cuda {

void embedding_forward(cudaStream_t stream, const Matrix& x, Into into, const std::int32_t* ids,
                       const Matrix& table, std::int64_t first_id);
void embedding_backward(cudaStream_t stream, const Scratch& scratch, const Matrix& dtable,
                        Into into, const Matrix& dx, const std::int32_t* ids,
                        std::int64_t first_id);

// For the backward of up to `rows` rows.
std::int64_t embedding_scratch_bytes(std::int64_t rows);

}  // namespace strata::ops::cuda

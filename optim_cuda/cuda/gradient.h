// Sums of gradients, and their rounding, on a cuda device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/base/dtype.h"

namespace strata::optim::cuda {

void accumulate(cudaStream_t stream, float* accumulated, const float* addend,
                std::int64_t elements);
template <typename T>  // bf16; float: widened again
void round_to_bf16(cudaStream_t stream, T* destination, const float* source, std::int64_t elements);
void add_square_sums(cudaStream_t stream, double* sums, const void* gradient, Dtype dtype,
                     std::int64_t first, std::int64_t last);

}  // namespace strata::optim::cuda

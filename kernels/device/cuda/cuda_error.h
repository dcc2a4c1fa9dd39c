// CudaError, and check(), through which every call of CUDA's libraries goes.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/base/error.h"

namespace strata {

// A call of CUDA failed; names the call, and the error's name and text.
class CudaError : public Error {
 public:
  using Error::Error;
};

namespace cuda {

// Throws CudaError unless the call succeeded; `what` names it: "cudaMemcpyAsync", "gelu". An error
// that is not sticky is cleared, so that no later call reports it again.
void check(cudaError_t result, const char* what);

}  // namespace cuda
}  // namespace strata

// check(), through which every call of CUDA goes, in kernels' files too.
#pragma once

#include <cuda_runtime_api.h>

namespace strata::cuda {

// Throws CudaError (kernels/base/error.h) unless the call succeeded; `what` names it:
// "cudaMemcpyAsync", "gelu". An error that is not sticky is cleared, so that no later call reports
// it again.
void check(cudaError_t result, const char* what);

// Of a call that gives something back: an error here is one that the run has ended with.
void ignore(cudaError_t result) noexcept;

}  // namespace strata::cuda

#include "kernels/device/cuda/cuda_error.h"

#include "kernels/base/error.h"

namespace strata::cuda {

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  (void)cudaGetLastError();
  throw_error<CudaError>("{}: {} ({})", what, cudaGetErrorString(result), cudaGetErrorName(result));
}

}  // namespace strata::cuda

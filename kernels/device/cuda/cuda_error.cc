#include "kernels/device/cuda/cuda_error.h"

#include "kernels/base/error.h"

namespace strata::cuda {

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  (void)cudaGetLastError();
  const bool sticks = cudaPeekAtLastError() == result;
  throw_error<CudaError>("{}: {} ({}){}", what, cudaGetErrorString(result),
                         cudaGetErrorName(result),
                         sticks ? ": the GPU's work before that call has failed; with "
                                  "CUDA_LAUNCH_BLOCKING=1 the error names it"
                                : "");
}

void ignore(cudaError_t result) noexcept {
  if (result != cudaSuccess) (void)cudaGetLastError();
}

}  // namespace strata::cuda

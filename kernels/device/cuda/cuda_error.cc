#include "kernels/device/cuda/cuda_error.h"

#include "kernels/base/error.h"

namespace strata::cuda {

namespace {

const char* hint(cudaError_t result) {
  if (result == cudaErrorInsufficientDriver) return ": update the NVIDIA driver";
  const bool sticks = cudaPeekAtLastError() == result && result != cudaErrorNoDevice;
  return sticks ? ": the GPU's work before that call has failed; with CUDA_LAUNCH_BLOCKING=1 the "
                  "error names it"
                : "";
}

}  // namespace

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  (void)cudaGetLastError();
  throw_error<CudaError>("{}: {} ({}){}", what, cudaGetErrorString(result),
                         cudaGetErrorName(result), hint(result));
}

void ignore(cudaError_t result) noexcept {
  if (result != cudaSuccess) (void)cudaGetLastError();
}

}  // namespace strata::cuda

// launch(): starts a kernel on a stream.
//
//   check(launch(stream, {.blocks_x = rows, .threads = 256}, gelu<bf16>, y, x, count), "gelu");
//
// The function's arguments are converted to its parameters. On hardware it is cudaLaunchKernelEx();
// the simulated device (tests/cuda_sim) has its own, with the same checks of the sizes.
// Returns what cuda_error.h's check() takes; enqueues, and does not wait.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/cuda/launch_size.h"

#ifdef STRATA_CUDA_SIM
#include "cuda_sim/launch.h"
#else

namespace strata::cuda {

inline constexpr std::int64_t kSharedBytesUnasked = 48 * 1024;

template <typename... Parameters, typename... Arguments>
[[nodiscard]] cudaError_t launch(cudaStream_t stream, const LaunchSize& size,
                                 void (*kernel)(Parameters...), Arguments... arguments) {
  if (size.shared_bytes > kSharedBytesUnasked) {
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(size.shared_bytes));
    if (error != cudaSuccess) return error;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(size.blocks_x), static_cast<unsigned>(size.blocks_y),
                        static_cast<unsigned>(size.blocks_z));
  config.blockDim = dim3(static_cast<unsigned>(size.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(size.shared_bytes);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

}  // namespace strata::cuda
#endif

// The simulated device's side of kernels/device/cuda/launch.h, which includes it.
#pragma once

#include "cuda_sim/stream.h"

namespace strata::cuda {

template <typename... Parameters, typename... Arguments>
[[nodiscard]] cudaError_t launch(cudaStream_t stream, const LaunchSize& size,
                                 void (*kernel)(Parameters...), Arguments... arguments) {
  return cuda_sim::launch_grid(
      stream, size,
      [kernel, ... parameters = static_cast<Parameters>(arguments)] { kernel(parameters...); });
}

}  // namespace strata::cuda

// The simulated device's side of kernels/device/cuda/launch.h, which includes it.
#pragma once

#include <memory>

#include "cuda_sim/stream.h"

namespace strata::cuda {

template <typename... Parameters, typename... Arguments>
[[nodiscard]] cudaError_t launch(cudaStream_t stream, const LaunchSize& size,
                                 void (*kernel)(Parameters...), Arguments... arguments) {
  const auto thread = [kernel, ... parameters = static_cast<Parameters>(arguments)] {
    kernel(parameters...);
  };
  constexpr std::size_t kQueuedBytesMax = 256;  // more is kept beside the stream's queue
  if constexpr (sizeof(thread) <= kQueuedBytesMax) {
    return cuda_sim::launch_grid(stream, size, thread);
  } else {
    return cuda_sim::launch_grid(
        stream, size, [kept = std::make_shared<decltype(thread)>(thread)] { (*kept)(); });
  }
}

}  // namespace strata::cuda

#include "kernels/device/cuda/gpu_context.h"

#include <cuda_runtime_api.h>

#include "cuda_sim/memory.h"
#include "kernels/device/cuda/cuda_error.h"

namespace strata::cuda {

std::int64_t make_context(int gpu) {
  check(cudaSetDevice(gpu), "cudaSetDevice");
  check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "cudaSetDeviceFlags");
  return cuda_sim::kContextBytes;
}

void arena_piece_allocated(void* address, std::int64_t bytes) {
  cuda_sim::piece_allocated(address, bytes);
}

void arena_piece_freed(void* address, std::int64_t bytes) noexcept {
  cuda_sim::piece_freed(address, bytes);
}

}  // namespace strata::cuda

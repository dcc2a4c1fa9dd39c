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

std::byte* place_piece(std::byte* arena, std::int64_t offset_bytes, std::int64_t bytes) {
  return static_cast<std::byte*>(cuda_sim::place_piece(arena, offset_bytes, bytes));
}

std::int64_t take_back_piece(std::byte* arena, std::byte* piece, std::int64_t bytes) noexcept {
  return cuda_sim::take_back_piece(arena, piece, bytes);
}

}  // namespace strata::cuda

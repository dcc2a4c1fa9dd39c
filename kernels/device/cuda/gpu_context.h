// What hardware and the simulated device (tests/cuda_sim/gpu_context.cc) do each in its own way.
#pragma once

#include <cstdint>

namespace strata::cuda {

// Makes this process's context on a GPU, on which threads that wait sleep; returns the bytes of the
// GPU's memory that it took.
std::int64_t make_context(int gpu);

// A CudaDevice's arena has handed out a piece, or got it back.
void arena_piece_allocated(void* address, std::int64_t bytes);
void arena_piece_freed(void* address, std::int64_t bytes) noexcept;

}  // namespace strata::cuda

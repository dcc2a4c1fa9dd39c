// What hardware and the simulated device (tests/cuda_sim/gpu_context.cc) do each in its own way.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::cuda {

// Makes this process's context on a GPU, on which threads that wait sleep; returns the bytes of the
// GPU's memory that it took.
std::int64_t make_context(int gpu);

// Where a piece of a CudaDevice's arena lies for its user, and the offset of one that comes back.
// On hardware it lies at its offset; the simulated device keeps pieces apart.
std::byte* place_piece(std::byte* arena, std::int64_t offset_bytes, std::int64_t bytes);
std::int64_t take_back_piece(std::byte* arena, std::byte* piece, std::int64_t bytes) noexcept;

}  // namespace strata::cuda

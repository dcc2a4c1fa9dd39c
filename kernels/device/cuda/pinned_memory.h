// Page memory that CUDA copies from and to by DMA.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/failure_latch.h"

namespace strata::cuda {

// Registers exactly the buffer's pages, with the GPU current; they stay registered while the result
// lives, which is before the memory goes; once the run has failed, the GPU is waited for first.
// Throws CudaError. Null for no memory.
std::shared_ptr<void> register_pinned(int gpu, std::string_view tag, const AlignedBuffer& memory,
                                      const FailureLatch& failure);

}  // namespace strata::cuda

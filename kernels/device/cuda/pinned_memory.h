// Page memory that CUDA copies from and to by DMA.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/base/aligned_buffer.h"

namespace strata::cuda {

// Registers exactly the buffer's pages, with the GPU current; they stay registered while the result
// lives, which is before the memory goes. Throws CudaError. Null for no memory.
std::shared_ptr<void> register_pinned(int gpu, std::string_view tag, const AlignedBuffer& memory);

}  // namespace strata::cuda

// Copies from device memory into shared memory that run beside the thread's arithmetic (cp.async).
// Between a copy and async_wait() of the same thread, what it copies to is nobody's.
#pragma once

#include "kernels/device/cuda/kernel_code.h"

namespace strata::cuda {

// From an address that is a multiple of 16.
template <typename T>
__device__ inline void copy_async(Vector<T>& to, const T* from) {
#ifdef STRATA_CUDA_SIM
  cuda_sim::current_block->copy_async(to, load_vector(from));
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(&to))),
               "l"(__cvta_generic_to_global(from))
               : "memory");
#endif
}

// Waits for this thread's copies; other threads see them after the next barrier.
__device__ inline void async_wait() {
#ifdef STRATA_CUDA_SIM
  cuda_sim::current_block->async_wait();
#else
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace strata::cuda

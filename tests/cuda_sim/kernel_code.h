// The simulated device's side of kernels/device/cuda/kernel_code.h, which includes it.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cuda_sim/block.h"
#include "cuda_sim/memory.h"
#include "cuda_sim/report.h"

#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif

namespace strata::cuda {

inline int thread_index() { return cuda_sim::current_block->thread(); }
inline int block_threads() { return cuda_sim::current_block->size().threads; }
inline int lane_index() { return thread_index() % kWarpThreads; }
inline int warp_index() { return thread_index() / kWarpThreads; }
inline std::int64_t block_x() { return cuda_sim::current_block->index().x; }
inline std::int64_t block_y() { return cuda_sim::current_block->index().y; }
inline std::int64_t block_z() { return cuda_sim::current_block->index().z; }
inline std::int64_t blocks_x() { return cuda_sim::current_block->size().blocks_x; }

template <typename T>
inline T load(const T* address) {
  return *cuda_sim::checked<cuda_sim::Access::read>(address);
}
template <typename T>
inline void store(T* address, std::type_identity_t<T> value) {
  *cuda_sim::checked<cuda_sim::Access::write>(address) = value;
}
template <typename T>
inline Vector<T> load_vector(const T* address) {
  return *cuda_sim::checked<cuda_sim::Access::read>(reinterpret_cast<const Vector<T>*>(address));
}
template <typename T>
inline void store_vector(T* address, const Vector<T>& values) {
  *cuda_sim::checked<cuda_sim::Access::write>(reinterpret_cast<Vector<T>*>(address)) = values;
}
template <typename T>
inline Vector<T> load_vector_streamed(const T* address) {
  return load_vector(address);
}
template <typename T>
inline void store_vector_streamed(T* address, const Vector<T>& values) {
  store_vector(address, values);
}
inline std::int32_t atomic_add(std::int32_t* address, std::int32_t value) {
  std::int32_t* const at = cuda_sim::checked<cuda_sim::Access::write>(address);
  return std::exchange(*at, *at + value);
}

template <typename T>
class SharedArray {
 public:
  SharedArray(T* data, std::int64_t elements) : data_(data), elements_(elements) {}
  T& operator[](std::int64_t i) const {
    if (i < 0 || i >= elements_) [[unlikely]] {
      cuda_sim::report("element {} of a shared array of {}", i, elements_);
    }
    return data_[i];
  }
  SharedArray part(std::int64_t first, std::int64_t elements) const {
    if (first < 0 || elements < 0 || first + elements > elements_) [[unlikely]] {
      cuda_sim::report("elements {} to {} of a shared array of {}", first, first + elements,
                       elements_);
    }
    return {data_ + first, elements};
  }

 private:
  T* data_;
  std::int64_t elements_;
};

class SharedMemory {
 public:
  template <typename T>
  SharedArray<T> take(std::int64_t elements) {
    cuda_sim::Block& block = *cuda_sim::current_block;
    T* const data = reinterpret_cast<T*>(block.shared_memory() + taken_bytes_);
    const std::int64_t bytes = elements * static_cast<std::int64_t>(sizeof(T));
    if (elements < 0 || taken_bytes_ + bytes > block.size().shared_bytes) {
      cuda_sim::report("{} bytes of shared memory after {}, of the {} that the launch states",
                       bytes, taken_bytes_, block.size().shared_bytes);
    }
    taken_bytes_ += (bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
    return {data, elements};
  }

 private:
  std::int64_t taken_bytes_ = 0;
};

inline void sync_threads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  cuda_sim::current_block->sync_threads({"sync_threads", file, line});
}
inline void sync_warp(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  cuda_sim::current_block->sync_warp({"sync_warp", file, line});
}
template <typename T>
inline T shuffle(T value, int lane, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
  const auto values = cuda_sim::current_block->exchange(value, {"shuffle", file, line});
  return values[lane & (kWarpThreads - 1)];
}
template <typename T>
inline T shuffle_xor(T value, int lanes, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) {
  const auto values = cuda_sim::current_block->exchange(value, {"shuffle_xor", file, line});
  return values[(lane_index() ^ lanes) & (kWarpThreads - 1)];
}

// Compiled with -ffp-contract=off.
inline float add_rn(float a, float b) { return a + b; }
inline float sub_rn(float a, float b) { return a - b; }
inline float mul_rn(float a, float b) { return a * b; }
inline float div_rn(float a, float b) { return a / b; }
inline float sqrt_rn(float a) { return std::sqrt(a); }
inline float fma_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double add_rn(double a, double b) { return a + b; }
inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

}  // namespace strata::cuda

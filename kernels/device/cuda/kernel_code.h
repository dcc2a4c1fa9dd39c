// What device code (.cu files) is written with: indices, memory, barriers, shuffles, arithmetic.
//
// There are two implementations of these functions: this one for nvcc, and tests/cuda_sim's, with
// which a C++ compiler turns the same .cu files into kernels of the simulated device. So device
// code
//   - reads and writes device memory through load*() and store*() alone: the simulated device
//     checks each of them, and a plain dereference of a device pointer faults there;
//   - takes shared memory from a SharedMemory, whose bytes the launch states;
//   - has one-dimensional blocks of whole warps, and every thread of a block reaches each barrier,
//     every thread of a warp each shuffle;
//   - uses no floating-point atomics: sums have an order.
// Kernels are `__global__ void` functions, started with launch() (launch.h); helpers `__device__`.
// Rounding is stated: *_rn() round to nearest and are never contracted into multiply-adds.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "kernels/base/dtype.h"

namespace strata::cuda {

inline constexpr int kWarpThreads = 32;
inline constexpr int kVectorBytes = 16;  // of the widest coalesced access
inline constexpr unsigned kAllLanes = 0xffffffffu;

// 16 bytes of T, as registers.
template <typename T>
struct alignas(kVectorBytes) Vector {
  static constexpr int kElements = kVectorBytes / static_cast<int>(sizeof(T));
  T at[kElements];
};

}  // namespace strata::cuda

#ifdef STRATA_CUDA_SIM
#include "cuda_sim/kernel_code.h"
#else

namespace strata::cuda {

// Indices.
__device__ inline int thread_index() { return static_cast<int>(threadIdx.x); }
__device__ inline int block_threads() { return static_cast<int>(blockDim.x); }
__device__ inline int lane_index() { return thread_index() % kWarpThreads; }
__device__ inline int warp_index() { return thread_index() / kWarpThreads; }
__device__ inline std::int64_t block_x() { return blockIdx.x; }
__device__ inline std::int64_t block_y() { return blockIdx.y; }
__device__ inline std::int64_t block_z() { return blockIdx.z; }
__device__ inline std::int64_t blocks_x() { return gridDim.x; }

// Device memory. A vector's address is a multiple of 16. `load_constant`: of what no thread of the
// kernel writes. `_streamed`: read or written once, so not worth a place in the cache.
template <typename T>
__device__ inline T load(const T* address) {
  return *address;
}
template <typename T>
__device__ inline void store(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <typename T>
__device__ inline Vector<T> load_vector(const T* address) {
  return *reinterpret_cast<const Vector<T>*>(address);
}
template <typename T>
__device__ inline void store_vector(T* address, const Vector<T>& values) {
  *reinterpret_cast<Vector<T>*>(address) = values;
}
template <typename T>
__device__ inline Vector<T> load_vector_streamed(const T* address) {
  const int4 bits = __ldcs(reinterpret_cast<const int4*>(address));
  return reinterpret_cast<const Vector<T>&>(bits);
}
template <typename T>
__device__ inline void store_vector_streamed(T* address, const Vector<T>& values) {
  __stcs(reinterpret_cast<int4*>(address), reinterpret_cast<const int4&>(values));
}

// Of integers, whose sums have no order. Returns what was there.
__device__ inline std::int32_t atomic_add(std::int32_t* address, std::int32_t value) {
  return atomicAdd(address, value);
}

// Shared memory of the block, as much as the launch states; contents are undefined at the start.
template <typename T>
class SharedArray {
 public:
  __device__ explicit SharedArray(T* data) : data_(data) {}
  __device__ T& operator[](std::int64_t i) const { return data_[i]; }
  __device__ SharedArray part(std::int64_t first, std::int64_t /*elements*/) const {
    return SharedArray(data_ + first);
  }

 private:
  T* data_;
};
// Hands it out piece by piece, each at a multiple of 16 bytes; every thread takes the same ones.
class SharedMemory {
 public:
  __device__ SharedMemory() {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    next_ = shared_memory;
  }
  template <typename T>
  __device__ SharedArray<T> take(std::int64_t elements) {
    T* const data = reinterpret_cast<T*>(next_);
    next_ += (elements * static_cast<std::int64_t>(sizeof(T)) + kVectorBytes - 1) / kVectorBytes *
             kVectorBytes;
    return SharedArray<T>(data);
  }

 private:
  unsigned char* next_;
};

// Barriers and exchange. Values of shuffles have 4 or 8 bytes.
__device__ inline void sync_threads() { __syncthreads(); }
__device__ inline void sync_warp() { __syncwarp(); }
template <typename T>
__device__ inline T shuffle(T value, int lane) {
  return __shfl_sync(kAllLanes, value, lane);
}
template <typename T>
__device__ inline T shuffle_xor(T value, int lanes) {
  return __shfl_xor_sync(kAllLanes, value, lanes);
}

// Arithmetic.
__device__ inline float add_rn(float a, float b) { return __fadd_rn(a, b); }
__device__ inline float sub_rn(float a, float b) { return __fsub_rn(a, b); }
__device__ inline float mul_rn(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float div_rn(float a, float b) { return __fdiv_rn(a, b); }
__device__ inline float sqrt_rn(float a) { return __fsqrt_rn(a); }
__device__ inline float fma_rn(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline double add_rn(double a, double b) { return __dadd_rn(a, b); }
__device__ inline std::uint32_t bits_of(float x) { return __float_as_uint(x); }
__device__ inline float float_of(std::uint32_t bits) { return __uint_as_float(bits); }

}  // namespace strata::cuda
#endif

namespace strata::cuda {

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(bf16 x) { return float_of(std::uint32_t{x.bits} << 16); }

// Rounded to nearest, ties to even; a NaN stays a quiet NaN: to_bf16_nearest_even() of the host.
template <typename T>
__device__ inline T narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline bf16 narrow<bf16>(float x) {
  const std::uint32_t bits = bits_of(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace strata::cuda

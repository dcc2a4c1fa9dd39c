// How the update's kernel reads and writes the state: kOwn consecutive elements a thread, in
// registers; those of a warp are what shares a scale in int8.
#pragma once

#include <cstdint>

#include "kernels/device/cuda/kernel_code.h"
#include "optim_cpu/stochastic_rounding.h"
#include "optim_cuda/update_call.h"

namespace strata::optim::cuda {

using namespace strata::cuda;  // NOLINT(google-build-using-namespace): kernel code

inline constexpr int kOwn = 8;
static_assert(kOwn * kWarpThreads == kScaleElements);

template <typename T>
struct Own {
  T at[kOwn];
};

// Once per step, so not through the cache.
template <typename T>
__device__ Own<T> load_own(const T* address) {
  constexpr int kElements = Vector<T>::kElements;
  Own<T> own;
#pragma unroll
  for (int first = 0; first < kOwn; first += kElements) {
    const Vector<T> vector = load_vector_streamed(address + first);
#pragma unroll
    for (int i = 0; i < kElements; ++i) own.at[first + i] = vector.at[i];
  }
  return own;
}
template <typename T>
__device__ void store_own(T* address, const Own<T>& own) {
  constexpr int kElements = Vector<T>::kElements;
#pragma unroll
  for (int first = 0; first < kOwn; first += kElements) {
    Vector<T> vector;
#pragma unroll
    for (int i = 0; i < kElements; ++i) vector.at[i] = own.at[first + i];
    store_vector_streamed(address + first, vector);
  }
}

// Codes of int8: 8 bytes a thread.
__device__ inline Own<std::uint8_t> load_own(const std::uint8_t* address) {
  const std::uint64_t bytes = load(reinterpret_cast<const std::uint64_t*>(address));
  Own<std::uint8_t> own;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) own.at[i] = static_cast<std::uint8_t>(bytes >> (8 * i));
  return own;
}
__device__ inline void store_own(std::uint8_t* address, const Own<std::uint8_t>& own) {
  std::uint64_t bytes = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) bytes |= std::uint64_t{own.at[i]} << (8 * i);
  store(reinterpret_cast<std::uint64_t*>(address), bytes);
}

class SplitMasters {
 public:
  static constexpr std::uint32_t kBoundBits = kSplitMasterBoundBits;

  __device__ SplitMasters(const State& state, std::int64_t first)
      : weight_at_(static_cast<bf16*>(state.weight) + first),
        remainder_at_(state.remainder + first),
        weight_(load_own(weight_at_)),
        remainder_(load_own(remainder_at_)) {}
  __device__ float get(int i) const {
    return float_of((std::uint32_t{weight_.at[i].bits} << 16) +
                    static_cast<std::uint32_t>(std::int32_t{remainder_.at[i]}));
  }
  __device__ void set(int i, float master) {
    const std::uint32_t bits = bits_of(master);
    weight_.at[i].bits = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
    remainder_.at[i] = static_cast<std::int16_t>(static_cast<std::uint16_t>(bits & 0xFFFFu));
  }
  __device__ void store() const {
    store_own(weight_at_, weight_);
    store_own(remainder_at_, remainder_);
  }

 private:
  bf16* weight_at_;
  std::int16_t* remainder_at_;
  Own<bf16> weight_;
  Own<std::int16_t> remainder_;
};

class F32Masters {
 public:
  static constexpr std::uint32_t kBoundBits = kInfinityBits;

  __device__ F32Masters(const State& state, std::int64_t first)
      : weight_at_(static_cast<float*>(state.weight) + first), weight_(load_own(weight_at_)) {}
  __device__ float get(int i) const { return weight_.at[i]; }
  __device__ void set(int i, float master) { weight_.at[i] = master; }
  __device__ void store() const { store_own(weight_at_, weight_); }

 private:
  float* weight_at_;
  Own<float> weight_;
};

// One or two moments of each element, as they are stored.
template <typename T, int kCount>
struct StoredMoments {
  __device__ StoredMoments(const State& state, std::int64_t first) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      at[k] = static_cast<T*>((k == 0 ? state.moment1 : state.moment2).values) + first;
      own[k] = load_own(at[k]);
    }
  }
  __device__ void store() const {
#pragma unroll
    for (int k = 0; k < kCount; ++k) store_own(at[k], own[k]);
  }

  T* at[kCount];
  Own<T> own[kCount];
};

// Formats in which what is stored of an element depends on that element alone.
struct EachAlone {
  struct Maps {};
  struct Shared {
    __device__ explicit Shared(const Maps& /*maps*/) {}
  };
  static constexpr std::int64_t kSharedBytes = 0;
  __device__ static bool takes_part(bool updates) { return updates; }
};

// What set() does not change, store() writes as it was.
template <int kCount>
class F32Moments : public EachAlone {
 public:
  __device__ F32Moments(const UpdateCall& call, const Shared& /*shared*/, std::int64_t first)
      : stored_(call.state, first) {}
  __device__ void get(int i, float (&moments)[kCount]) const {
    for (int k = 0; k < kCount; ++k) moments[k] = stored_.own[k].at[i];
  }
  __device__ void set(int i, const float (&moments)[kCount]) {
    for (int k = 0; k < kCount; ++k) stored_.own[k].at[i] = moments[k];
  }
  __device__ void store(const Maps& /*maps*/) const { stored_.store(); }

 private:
  StoredMoments<float, kCount> stored_;
};

// The random bits of an element's moment: the lower half of the hash is the first one's.
__device__ inline std::uint32_t random_half(const RoundingKey& key, std::uint32_t index, int k) {
  const std::uint32_t random = random_bits(key, index);
  return k == 0 ? random & 0xFFFFu : random >> 16;
}

template <int kCount>
class Bf16Moments : public EachAlone {
 public:
  __device__ Bf16Moments(const UpdateCall& call, const Shared& /*shared*/, std::int64_t first)
      : stored_(call.state, first),
        key_(call.constants.rounding_key),
        index_(static_cast<std::uint32_t>(call.state.first_element + first)) {}
  __device__ void get(int i, float (&moments)[kCount]) const {
    for (int k = 0; k < kCount; ++k) moments[k] = widen(stored_.own[k].at[i]);
  }
  __device__ void set(int i, const float (&moments)[kCount]) {
    for (int k = 0; k < kCount; ++k) {
      const std::uint32_t random = random_half(key_, index_ + static_cast<std::uint32_t>(i), k);
      stored_.own[k].at[i].bits = round_stochastically(moments[k], random);
    }
  }
  __device__ void store(const Maps& /*maps*/) const { stored_.store(); }

 private:
  StoredMoments<bf16, kCount> stored_;
  RoundingKey key_;
  std::uint32_t index_;
};

}  // namespace strata::optim::cuda

// Moments in int8, as optim_cpu/isa/quantise.cc has them: the kScaleElements of a warp have a
// scale.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/bytes.h"
#include "optim_cpu/dynamic_map.h"
#include "optim_cuda/cuda/state_pieces.h"

namespace strata::optim::cuda {

// The largest of a warp.
__device__ inline std::uint32_t warp_max(std::uint32_t value) {
  for (int lanes = kWarpThreads / 2; lanes > 0; lanes /= 2) {
    value = std::max(value, shuffle_xor(value, lanes));
  }
  return value;
}

// The level at or below x, or the next, whose chance is the share of the way to it. `random`: 16
// bits. DynamicMap::place(), with operations that are not contracted.
template <int kLevels>
__device__ int level_of(const DynamicMap<kLevels>& map, float x, std::uint32_t random) {
  using Map = DynamicMap<kLevels>;
  const auto bits_at = [&](const typename Map::Line& line) {
    return static_cast<std::int32_t>(bits_of(add_rn(line.offset, mul_rn(line.slope, x))));
  };
  std::int32_t lowest = bits_at(map.lines[0]);
#pragma unroll
  for (std::size_t line = 1; line < Map::kLines; ++line) {
    lowest = std::min(lowest, bits_at(map.lines[line]));
  }
  const auto place = static_cast<std::uint32_t>(std::max(lowest, bits_at(map.last_line)));
  const std::uint32_t sum = bits_of(add_rn(float_of(place), 0x1p23f)) - bits_of(0x1p23f);
  return static_cast<int>((sum + (random >> (16 - Map::kPlaceBits))) >> Map::kPlaceBits);
}

template <int kCount>
class Int8Moments {
 public:
  // A kernel's parameter, for device code cannot index the program's constants.
  struct Maps {
    DynamicMap<kSignedLevels> of_signed = kSignedMap;
    DynamicMap<kUnsignedLevels> of_unsigned = kUnsignedMap;
  };
  // Levels, of a block of threads.
  struct Shared {
    SharedArray<float> of_signed;
    SharedArray<float> of_unsigned;
    __device__ explicit Shared(const Maps& maps) : Shared(SharedMemory(), maps) {}

   private:
    __device__ Shared(SharedMemory memory, const Maps& maps)
        : of_signed(memory.take<float>(kSignedLevels)),
          of_unsigned(memory.take<float>(kUnsignedLevels)) {
      for (int n = thread_index(); n < kUnsignedLevels; n += block_threads()) {
        const auto level = static_cast<std::size_t>(n);
        if (n < kSignedLevels) of_signed[n] = maps.of_signed.level[level];
        of_unsigned[n] = maps.of_unsigned.level[level];
      }
      sync_threads();
    }
  };
  static constexpr std::int64_t kSharedBytes =
      (round_up(kSignedLevels, 4) + kUnsignedLevels) * std::int64_t{sizeof(float)};

  // Where one element of a scale is updated, all are written.
  __device__ static bool takes_part(bool updates) { return warp_max(updates ? 1 : 0) != 0; }

  __device__ Int8Moments(const UpdateCall& call, const Shared& shared, std::int64_t first)
      : Int8Moments(call, shared, first, Place(call, first)) {}
  __device__ void get(int i, float (&moments)[kCount]) const {
#pragma unroll
    for (int k = 0; k < kCount; ++k) moments[k] = values_[k].at[i];
  }
  __device__ void set(int i, const float (&moments)[kCount]) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) values_[k].at[i] = moments[k];
  }
  __device__ void store(const Maps& maps) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      std::uint32_t largest = 0;
#pragma unroll
      for (const float value : values_[k].at) largest = std::max(largest, magnitude_bits(value));
      const float scale = float_of(warp_max(largest));
      const float divisor = scale == 0 ? 1.0f : scale;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const float value = values_[k].at[i];
        const float share = div_rn(float_of(magnitude_bits(value)), divisor);
        const std::uint32_t random = random_half(key_, index_ + static_cast<std::uint32_t>(i), k);
        stored_.own[k].at[i] = static_cast<std::uint8_t>(
            k == 0 ? signed_code(level_of(maps.of_signed, share, random), value)
                   : std::max(level_of(maps.of_unsigned, share, random), value > 0 ? 1 : 0));
      }
      if (lane_index() == 0) strata::cuda::store(scale_at_[k], scale);
    }
    stored_.store();
  }

 private:
  // Of an element: the bytes before its block, and where it is there.
  struct Place {
    __device__ Place(const UpdateCall& call, std::int64_t first) {
      const auto element = static_cast<std::uint32_t>(call.place_in_block + first);
      const auto elements = static_cast<std::uint32_t>(call.blocks.elements);
      before_bytes = element / elements * call.blocks.bytes;
      within = element % elements;
    }
    std::int64_t before_bytes;
    std::int64_t within;
  };
  __device__ Int8Moments(const UpdateCall& call, const Shared& shared, std::int64_t first,
                         const Place& place)
      : stored_(call.state, place.before_bytes + place.within),
        key_(call.constants.rounding_key),
        index_(static_cast<std::uint32_t>(call.state.first_element + first)) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const Moment& moment = k == 0 ? call.state.moment1 : call.state.moment2;
      scale_at_[k] = moment.scales + place.before_bytes / 4 + place.within / kScaleElements;
      const float scale = load(scale_at_[k]);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const int code = stored_.own[k].at[i];
        values_[k].at[i] =
            mul_rn(k == 0 ? signed_level(shared.of_signed, code) : shared.of_unsigned[code], scale);
      }
    }
  }

  // Codes of magnitudes are their levels, those of numbers below zero the negated ones; 128 is 1.
  __device__ static float signed_level(const SharedArray<float>& levels, int code) {
    return code < kSignedLevels ? levels[code] : -levels[256 - code];
  }
  __device__ static int signed_code(int level, float value) {
    return value < 0 ? -std::min(level, kSignedLevels - 2) : level;
  }

  StoredMoments<std::uint8_t, kCount> stored_;
  float* scale_at_[kCount];
  Own<float> values_[kCount];
  RoundingKey key_;
  std::uint32_t index_;
};

}  // namespace strata::optim::cuda

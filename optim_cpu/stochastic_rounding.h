// Stochastic rounding of moments: random bits of an element, and the rounding to bf16 with them
// (docs/optimizer.md). Of integers alone, so the same bits on every instruction set and device.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace strata::optim {

inline constexpr std::uint32_t kInfinityBits = 0x7F800000u;

constexpr std::uint32_t magnitude_bits(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu;
}

// Of a seed, a step, a unit, and the upper half of an index in it.
struct RoundingKey {
  std::uint32_t words[2];
};

// 32 random bits of an element: a hash of its index with the key put in at two places. Multipliers
// and shifts are those of "lowbias32" (C. Wellons, Prospecting for Hash Functions, 2018).
constexpr std::uint32_t random_bits(const RoundingKey& key, std::uint32_t index) {
  std::uint32_t x = index ^ key.words[0];
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x ^= key.words[1];
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

// Up with probability (discarded bits) / 2^16, for `random` uniform in [0, 2^16): the mean is x. A
// finite number stays finite, what is not finite stays so.
constexpr std::uint16_t round_stochastically(float x, std::uint32_t random) {
  constexpr std::uint32_t kLargestFiniteBits = kInfinityBits - 1;
  const std::uint32_t magnitude = magnitude_bits(x);
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(x) ^ magnitude;
  const std::uint32_t rounded =
      std::min(magnitude + random, std::max(magnitude, kLargestFiniteBits));
  return static_cast<std::uint16_t>((sign | rounded) >> 16);
}

}  // namespace strata::optim

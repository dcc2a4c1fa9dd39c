// How the update loop reads and writes an element of the state in each of its formats. For the
// files compiled once per instruction set: inline code that the compiler vectorises.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "optim_cpu/isa/functions.h"
#include "optim_cpu/isa/prefetch.h"

namespace strata::optim::STRATA_ISA {

inline constexpr std::uint32_t kInfinityBits = 0x7F800000u;

inline std::uint32_t magnitude_bits(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu;
}

inline float widen(float x) { return x; }
inline float widen(bf16 x) { return to_float(x); }

struct SplitMasters {
  static constexpr std::uint32_t kBoundBits = kSplitMasterBoundBits;
  bf16* weight;
  std::int16_t* remainder;

  explicit SplitMasters(const State& state)
      : weight(static_cast<bf16*>(state.weight)), remainder(state.remainder) {}
  float load(std::int64_t i) const { return join_master(weight[i], remainder[i]); }
  void store(std::int64_t i, float master) const {
    const SplitMaster split = split_master(master);
    weight[i].bits = split.weight.bits;  // not as a struct: its copy is not vectorised
    remainder[i] = split.remainder;
  }
  void prefetch_elements(std::int64_t begin, std::int64_t end) const {
    prefetch(weight, begin, end);
    prefetch(remainder, begin, end);
  }
};

struct F32Masters {
  static constexpr std::uint32_t kBoundBits = kInfinityBits;
  float* weight;

  explicit F32Masters(const State& state) : weight(static_cast<float*>(state.weight)) {}
  float load(std::int64_t i) const { return weight[i]; }
  void store(std::int64_t i, float master) const { weight[i] = master; }
  void prefetch_elements(std::int64_t begin, std::int64_t end) const {
    prefetch(weight, begin, end);
  }
};

struct F32Moments {
  float* moment1;
  float* moment2;

  F32Moments(const State& state, const UpdateConstants&)
      : moment1(static_cast<float*>(state.moment1.values)),
        moment2(static_cast<float*>(state.moment2.values)) {}
  float load1(std::int64_t i) const { return moment1[i]; }
  float load2(std::int64_t i) const { return moment2[i]; }
  void store1(std::int64_t i, float m) const { moment1[i] = m; }
  void store(std::int64_t i, float m, float v) const {
    moment1[i] = m;
    moment2[i] = v;
  }
};

// 32 random bits of an element: a hash of its index with the key put in at two places. Multipliers
// and shifts are those of "lowbias32" (C. Wellons, Prospecting for Hash Functions, 2018).
inline std::uint32_t random_bits(const RoundingKey& key, std::uint32_t index) {
  std::uint32_t x = index ^ key.words[0];
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x ^= key.words[1];
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

// Up with probability (discarded bits) / 2^16, for `random` uniform in [0, 2^16): the mean is x. A
// finite number stays finite, what is not finite stays so.
inline std::uint16_t round_stochastically(float x, std::uint32_t random) {
  constexpr std::uint32_t kLargestFiniteBits = kInfinityBits - 1;
  const std::uint32_t magnitude = magnitude_bits(x);
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(x) ^ magnitude;
  const std::uint32_t rounded =
      std::min(magnitude + random, std::max(magnitude, kLargestFiniteBits));
  return static_cast<std::uint16_t>((sign | rounded) >> 16);
}

struct Bf16Moments {
  bf16* moment1;
  bf16* moment2;
  std::uint32_t first;  // index of element 0 in the unit, mod 2^32
  RoundingKey key;

  Bf16Moments(const State& state, const UpdateConstants& constants)
      : moment1(static_cast<bf16*>(state.moment1.values)),
        moment2(static_cast<bf16*>(state.moment2.values)),
        first(static_cast<std::uint32_t>(state.first_element)),
        key(constants.rounding_key) {}
  float load1(std::int64_t i) const { return to_float(moment1[i]); }
  float load2(std::int64_t i) const { return to_float(moment2[i]); }
  std::uint32_t random(std::int64_t i) const {
    return random_bits(key, first + static_cast<std::uint32_t>(i));
  }
  void store1(std::int64_t i, float m) const {
    moment1[i].bits = round_stochastically(m, random(i) & 0xFFFFu);
  }
  void store(std::int64_t i, float m, float v) const {
    const std::uint32_t bits = random(i);
    moment1[i].bits = round_stochastically(m, bits & 0xFFFFu);
    moment2[i].bits = round_stochastically(v, bits >> 16);
  }
};

}  // namespace strata::optim::STRATA_ISA

// How the update loop reads and writes an element of the state in each of its formats. For the
// files compiled once per instruction set: inline code that the compiler vectorises.
#pragma once

#include <cstdint>

#include "optim_cpu/isa/functions.h"
#include "optim_cpu/isa/prefetch.h"
#include "optim_cpu/stochastic_rounding.h"

namespace strata::optim::STRATA_ISA {

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

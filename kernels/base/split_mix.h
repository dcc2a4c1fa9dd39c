// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
// 2014): random numbers of which any one can be had without those before it.
//
// Orders of sequences, stochastic rounding and injected faults depend on every bit of it.
#pragma once

#include <cstdint>

namespace strata {

struct SplitMix64 {
  static constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15u;  // between two states

  // A number from a state: a bijection whose every output bit depends on every input bit.
  static constexpr std::uint64_t finish(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  constexpr std::uint64_t operator()() { return finish(state += kGamma); }

  std::uint64_t state = 0;  // at first, the seed
};

}  // namespace strata

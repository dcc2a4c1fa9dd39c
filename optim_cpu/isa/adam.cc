// The Adam loop. Its bits are those of the C++ below, element by element: no contraction, no
// reassociation, every fused multiply-add written out.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "optim_cpu/isa/functions.h"

namespace strata::optim::STRATA_ISA {
namespace {

constexpr std::int64_t kBlockElements = 64;      // between rounds of prefetching
constexpr std::int64_t kPrefetchElements = 512;  // ahead of the block at work
constexpr std::int64_t kCacheLineBytes = 64;
constexpr std::uint32_t kInfinityBits = 0x7F800000u;

std::uint32_t magnitude_bits(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu; }

struct SplitMasters {
  static constexpr std::uint32_t kBoundBits = kSplitMasterBoundBits;
  bf16* weight;
  std::int16_t* remainder;

  float load(std::int64_t i) const { return join_master(weight[i], remainder[i]); }
  void store(std::int64_t i, float master) const {
    const SplitMaster split = split_master(master);
    weight[i].bits = split.weight.bits;  // not as a struct: its copy is not vectorised
    remainder[i] = split.remainder;
  }
};

struct F32Masters {
  static constexpr std::uint32_t kBoundBits = kInfinityBits;
  float* weight;

  float load(std::int64_t i) const { return weight[i]; }
  void store(std::int64_t i, float master) const { weight[i] = master; }
};

float widen(float x) { return x; }
float widen(bf16 x) { return to_float(x); }

// The part of [begin, end) that exists, into the first-level cache.
template <typename T>
void prefetch(const T* data, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kLineElements = kCacheLineBytes / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = begin; i < end; i += kLineElements) __builtin_prefetch(data + i);
}
void prefetch(const SplitMasters& masters, std::int64_t begin, std::int64_t end) {
  prefetch(masters.weight, begin, end);
  prefetch(masters.remainder, begin, end);
}
void prefetch(const F32Masters& masters, std::int64_t begin, std::int64_t end) {
  prefetch(masters.weight, begin, end);
}

// Largest magnitudes seen, as bits: NaN above infinity above every finite value.
struct Extremes {
  std::uint32_t master_bits = 0;
  std::uint32_t moment2_bits = 0;
};

template <typename Masters, typename Gradient>
void update_block(const AdamConstants& constants, Masters masters, float* moment1, float* moment2,
                  const Gradient* gradient, std::int64_t begin, std::int64_t end,
                  Extremes& extremes) {
  const AdamConstants c = constants;
  Extremes seen = extremes;
#pragma GCC ivdep
  for (std::int64_t i = begin; i < end; ++i) {
    const float w = masters.load(i);
    const float g = std::fma(c.coupled_decay, w, c.gradient_scale * widen(gradient[i]));
    const float m = std::fma(c.beta1, moment1[i], c.one_minus_beta1 * g);
    const float v = std::fma(c.beta2, moment2[i], c.one_minus_beta2 * g * g);
    const float denominator = std::fma(std::sqrt(v), c.moment2_root_scale, c.epsilon);
    const float change = std::fma(c.decoupled_decay, w, c.step_size * (m / denominator));
    const float updated = w - change;
    moment1[i] = m;
    moment2[i] = v;
    masters.store(i, updated);
    seen.master_bits = std::max(seen.master_bits, magnitude_bits(updated));
    seen.moment2_bits = std::max(seen.moment2_bits, magnitude_bits(v));
  }
  extremes = seen;
}

template <typename Masters, typename Gradient>
bool update(const AdamConstants& constants, Masters masters, float* moment1, float* moment2,
            const Gradient* gradient, std::int64_t elements) {
  Extremes extremes;
  for (std::int64_t begin = 0; begin < elements; begin += kBlockElements) {
    const std::int64_t end = std::min(begin + kBlockElements, elements);
    const std::int64_t ahead_end = std::min(end + kPrefetchElements, elements);
    const std::int64_t ahead_begin = ahead_end - kBlockElements;
    if (ahead_begin >= end) {
      prefetch(masters, ahead_begin, ahead_end);
      prefetch(moment1, ahead_begin, ahead_end);
      prefetch(moment2, ahead_begin, ahead_end);
      prefetch(gradient, ahead_begin, ahead_end);
    }
    update_block(constants, masters, moment1, moment2, gradient, begin, end, extremes);
  }
  return extremes.master_bits < Masters::kBoundBits && extremes.moment2_bits < kInfinityBits;
}

template <typename Masters, typename State>
bool update(const AdamConstants& constants, Masters masters, const State& s) {
  return s.gradient_f32 != nullptr
             ? update(constants, masters, s.moment1, s.moment2, s.gradient_f32, s.elements)
             : update(constants, masters, s.moment1, s.moment2, s.gradient_bf16, s.elements);
}

bool update_split(const AdamConstants& constants, const SplitState& state) {
  return update(constants, SplitMasters{state.weight, state.remainder}, state);
}

bool update_f32(const AdamConstants& constants, const F32State& state) {
  return update(constants, F32Masters{state.weight}, state);
}

}  // namespace

const AdamFunctions kAdamFunctions = {update_split, update_f32};

}  // namespace strata::optim::STRATA_ISA

// The update loop. Its bits are those of the C++ below, element by element: no contraction, no
// reassociation, every fused multiply-add written out.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "optim_cpu/isa/functions.h"
#include "optim_cpu/isa/prefetch.h"
#include "optim_cpu/isa/state_access.h"

namespace strata::optim::STRATA_ISA {
namespace {

// The update rules. Each writes the new moments, raises `seen_bits` to the magnitude of the one
// that must stay finite, and returns what the master loses.
struct Adam {
  template <typename Moments>
  static float change(const UpdateConstants& c, const Moments& moments, std::int64_t i, float w,
                      float gradient, std::uint32_t& seen_bits) {
    const float g = std::fma(c.coupled_decay, w, c.gradient_scale * gradient);
    const float m = std::fma(c.beta1, moments.load1(i), c.one_minus_beta1 * g);
    const float v = std::fma(c.beta2, moments.load2(i), c.one_minus_beta2 * g * g);
    const float denominator = std::fma(std::sqrt(v), c.moment2_root_scale, c.epsilon);
    moments.store(i, m, v);
    seen_bits = std::max(seen_bits, magnitude_bits(v));
    return std::fma(c.decoupled_decay, w, c.step_size * (m / denominator));
  }
};

struct Lion {
  template <typename Moments>
  static float change(const UpdateConstants& c, const Moments& moments, std::int64_t i, float w,
                      float gradient, std::uint32_t& seen_bits) {
    const float g = c.gradient_scale * gradient;
    const float m = moments.load1(i);
    const float direction = std::fma(c.beta1, m, c.one_minus_beta1 * g);
    const float updated = std::fma(c.beta2, m, c.one_minus_beta2 * g);
    moments.store1(i, updated);
    seen_bits = std::max(seen_bits, magnitude_bits(updated));
    const float up = direction < 0 ? -c.step_size : 0.0f;
    return std::fma(c.decoupled_decay, w, direction > 0 ? c.step_size : up);
  }
};

// Largest magnitudes seen, as bits: NaN above infinity above every finite value.
struct Extremes {
  std::uint32_t master_bits = 0;
  std::uint32_t moment_bits = 0;
};

template <typename Rule, typename Masters, typename Moments, typename Gradient>
void update_block(const UpdateConstants& constants, const Masters masters, const Moments moments,
                  const Gradient* gradient, std::int64_t begin, std::int64_t end,
                  Extremes& extremes) {
  const UpdateConstants c = constants;
  Extremes seen = extremes;
#pragma GCC ivdep
  for (std::int64_t i = begin; i < end; ++i) {
    const float w = masters.load(i);
    const float updated = w - Rule::change(c, moments, i, w, widen(gradient[i]), seen.moment_bits);
    masters.store(i, updated);
    seen.master_bits = std::max(seen.master_bits, magnitude_bits(updated));
  }
  extremes = seen;
}

template <typename Rule, typename Masters, typename Moments, typename Gradient>
bool update(const UpdateConstants& constants, const State& state, std::int64_t begin,
            std::int64_t end) {
  const Masters masters(state);
  const Moments moments(state, constants);
  const auto* const gradient = static_cast<const Gradient*>(state.gradient);
  Extremes extremes;
  for (std::int64_t first = begin; first < end; first += kBlockElements) {
    const std::int64_t last = std::min(first + kBlockElements, end);
    const std::int64_t ahead = last + kPrefetchElements;
    if (ahead <= state.elements) {
      masters.prefetch_elements(ahead - kBlockElements, ahead);
      prefetch(moments.moment1, ahead - kBlockElements, ahead);
      if constexpr (std::is_same_v<Rule, Adam>) {
        prefetch(moments.moment2, ahead - kBlockElements, ahead);
      }
      prefetch(gradient, ahead - kBlockElements, ahead);
    }
    update_block<Rule>(constants, masters, moments, gradient, first, last, extremes);
  }
  return extremes.master_bits < Masters::kBoundBits && extremes.moment_bits < kInfinityBits;
}

template <typename Rule, typename Masters, typename Moments>
auto with_gradient(const State& state) {
  return state.gradient_dtype == Dtype::f32 ? update<Rule, Masters, Moments, float>
                                            : update<Rule, Masters, Moments, bf16>;
}

template <typename Rule, typename Masters>
auto with_moments(const State& state) {
  return state.moments == MomentFormat::bf16 ? with_gradient<Rule, Masters, Bf16Moments>(state)
                                             : with_gradient<Rule, Masters, F32Moments>(state);
}

template <typename Rule>
auto with_masters(const State& state) {
  return state.remainder != nullptr ? with_moments<Rule, SplitMasters>(state)
                                    : with_moments<Rule, F32Masters>(state);
}

bool update_range(Method method, const UpdateConstants& constants, const State& state,
                  std::int64_t begin, std::int64_t end) {
  const auto function =
      method == Method::lion ? with_masters<Lion>(state) : with_masters<Adam>(state);
  return function(constants, state, begin, end);
}

}  // namespace

const UpdateRange kUpdateRange = update_range;

}  // namespace strata::optim::STRATA_ISA

// What the arithmetic of one step needs of its settings, each value computed in f64 and rounded to
// f32 once (docs/optimizer.md): the same numbers for whatever computes with them. And what is left
// of a state behind a part of it.
#pragma once

#include <cstdint>

#include "optim_cpu/optimizer.h"
#include "optim_cpu/stochastic_rounding.h"

namespace strata::optim {

// Of a segment.
struct UpdateConstants {
  float gradient_scale;
  float coupled_decay;    // lambda for adam, else 0
  float decoupled_decay;  // lr * lambda; 0 for adam
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float step_size;           // lr / (1 - beta1^t); lion: lr
  float moment2_root_scale;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
  RoundingKey rounding_key;
};

// Of a step, whatever the segment.
struct BiasCorrection {
  double moment1;            // 1 - beta1^t; 1 for lion
  float moment2_root_scale;  // 1 / sqrt(1 - beta2^t)
};

BiasCorrection bias_correction(const StepSettings& settings);

// Without a rounding key.
UpdateConstants update_constants(const StepSettings& settings, const BiasCorrection& correction,
                                 const Segment& segment);

inline constexpr std::int64_t kKeyElements = std::int64_t{1} << 32;  // that share a key

// Of element `index` of the unit.
RoundingKey rounding_key(const StepSettings& settings, std::uint64_t unit, std::int64_t index);

// Of a stored moment, without scales.
constexpr std::int64_t moment_bytes(MomentFormat format) {
  return format == MomentFormat::f32 ? 4 : format == MomentFormat::bf16 ? 2 : 1;
}

// Elements from `begin` on; with moments in int8 that is where a scale starts.
State rest_of(const State& state, std::int64_t begin);

}  // namespace strata::optim

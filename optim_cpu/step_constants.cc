#include "optim_cpu/step_constants.h"

#include <cmath>
#include <cstddef>

#include "kernels/base/split_mix.h"

namespace strata::optim {
namespace {

template <typename T>
T* advanced(T* data, std::int64_t bytes) {
  return data == nullptr ? nullptr
                         : reinterpret_cast<T*>(reinterpret_cast<std::byte*>(data) + bytes);
}

}  // namespace

BiasCorrection bias_correction(const StepSettings& settings) {
  if (settings.method == Method::lion) return {1, 1};
  const auto t = static_cast<double>(settings.step);
  return {1 - std::pow(double{settings.beta1}, t),
          static_cast<float>(1 / std::sqrt(1 - std::pow(double{settings.beta2}, t)))};
}

UpdateConstants update_constants(const StepSettings& settings, const BiasCorrection& correction,
                                 const Segment& segment) {
  const bool decoupled = settings.method != Method::adam;
  return {
      .gradient_scale = settings.gradient_scale,
      .coupled_decay = decoupled ? 0.0f : segment.weight_decay,
      .decoupled_decay = decoupled ? segment.learning_rate * segment.weight_decay : 0.0f,
      .beta1 = settings.beta1,
      .one_minus_beta1 = static_cast<float>(1 - double{settings.beta1}),
      .beta2 = settings.beta2,
      .one_minus_beta2 = static_cast<float>(1 - double{settings.beta2}),
      .step_size = static_cast<float>(double{segment.learning_rate} / correction.moment1),
      .moment2_root_scale = correction.moment2_root_scale,
      .epsilon = settings.epsilon,
      .rounding_key = {},
  };
}

RoundingKey rounding_key(const StepSettings& settings, std::uint64_t unit, std::int64_t index) {
  std::uint64_t key = SplitMix64{settings.seed}();
  for (const std::uint64_t word : {static_cast<std::uint64_t>(settings.step), unit,
                                   static_cast<std::uint64_t>(index / kKeyElements)}) {
    key = SplitMix64{key ^ word}();
  }
  return {{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}};
}

State rest_of(const State& state, std::int64_t begin) {
  State rest = state;
  rest.weight = advanced(state.weight, begin * (state.remainder != nullptr ? 2 : 4));
  rest.remainder = advanced(state.remainder, begin * 2);
  const std::int64_t value_bytes = moment_bytes(state.moments);
  for (Moment* moment : {&rest.moment1, &rest.moment2}) {
    moment->values = advanced(moment->values, begin * value_bytes);
    moment->scales = advanced(moment->scales, begin / kScaleElements * 4);
  }
  rest.gradient =
      static_cast<const std::byte*>(state.gradient) + begin * bytes_of(state.gradient_dtype);
  rest.elements -= begin;
  rest.first_element += begin;
  return rest;
}

}  // namespace strata::optim

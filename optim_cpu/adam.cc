#include "optim_cpu/adam.h"

#include <cmath>

#include "kernels/base/error.h"
#include "optim_cpu/isa/functions.h"
#include "optim_cpu/isa_select.h"

namespace strata::optim {
namespace {

AdamConstants constants_of(const AdamStep& step) {
  STRATA_CHECK(step.step >= 1, "Adam's step number starts at 1, not {}", step.step);
  const auto t = static_cast<double>(step.step);
  const double learning_rate = step.learning_rate;
  const double beta1 = step.beta1;
  const double beta2 = step.beta2;
  const bool decoupled = step.method == Method::adamw;
  return {
      .gradient_scale = step.gradient_scale,
      .coupled_decay = decoupled ? 0.0f : step.weight_decay,
      .decoupled_decay = decoupled ? step.learning_rate * step.weight_decay : 0.0f,
      .beta1 = step.beta1,
      .one_minus_beta1 = static_cast<float>(1 - beta1),
      .beta2 = step.beta2,
      .one_minus_beta2 = static_cast<float>(1 - beta2),
      .step_size = static_cast<float>(learning_rate / (1 - std::pow(beta1, t))),
      .moment2_root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t))),
      .epsilon = step.epsilon,
  };
}

const AdamFunctions& functions(Isa isa) {
  return select(isa, scalar::kAdamFunctions, avx2::kAdamFunctions, avx512::kAdamFunctions);
}

template <typename State>
void check_gradient(const State& state) {
  STRATA_CHECK(
      (state.gradient_f32 == nullptr) != (state.gradient_bf16 == nullptr) || state.elements == 0,
      "a state has one gradient, f32 or bf16");
}

}  // namespace

bool adam_update(const AdamStep& step, const SplitState& state, Isa isa) {
  check_gradient(state);
  return functions(isa).split(constants_of(step), state);
}

bool adam_update(const AdamStep& step, const F32State& state, Isa isa) {
  check_gradient(state);
  return functions(isa).f32(constants_of(step), state);
}

}  // namespace strata::optim

#include "optim_cpu/gradient.h"

#include <cmath>

#include "kernels/base/error.h"
#include "optim_cpu/isa/functions.h"
#include "optim_cpu/isa_select.h"

namespace strata::optim {
namespace {

const GradientFunctions& functions(Isa isa) {
  return select(isa, scalar::kGradientFunctions, avx2::kGradientFunctions,
                avx512::kGradientFunctions);
}

std::int64_t elements_of(auto span) { return static_cast<std::int64_t>(span.size()); }

// So few squares of finite f32 are far from overflowing an f64: only an infinity or a NaN makes the
// sum one.
double checked_sum(double sum, bool* finite) {
  if (!std::isfinite(sum)) *finite = false;
  return sum;
}

}  // namespace

double gradient_square_sum(std::span<const float> gradient, Isa isa, bool* finite) {
  STRATA_CHECK(elements_of(gradient) <= kSquareSumElements);
  return checked_sum(functions(isa).square_sum_f32(gradient.data(), elements_of(gradient)), finite);
}

double gradient_square_sum(std::span<const bf16> gradient, Isa isa, bool* finite) {
  STRATA_CHECK(elements_of(gradient) <= kSquareSumElements);
  return checked_sum(functions(isa).square_sum_bf16(gradient.data(), elements_of(gradient)),
                     finite);
}

void accumulate(std::span<float> accumulated, std::span<const float> addend, Isa isa) {
  STRATA_CHECK(accumulated.size() == addend.size());
  functions(isa).accumulate(accumulated.data(), addend.data(), elements_of(addend));
}

void round_to_bf16(std::span<bf16> destination, std::span<const float> source, Isa isa) {
  STRATA_CHECK(destination.size() == source.size());
  functions(isa).round_to_bf16(destination.data(), source.data(), elements_of(source));
}

}  // namespace strata::optim

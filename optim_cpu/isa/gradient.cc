// Sums of gradients, and their rounding to bf16.
#include <cstdint>

#include "optim_cpu/isa/functions.h"

namespace strata::optim::STRATA_ISA {
namespace {

float widen(float x) { return x; }
float widen(bf16 x) { return to_float(x); }

// Lane l takes the squares of elements l, l + 16, l + 32, … in that order; then lanes are added
// pairwise: 0 + 8, 1 + 9, …, then 0 + 4, …. A square of an f32 is exact in f64.
template <typename T>
double square_sum(const T* x, std::int64_t elements) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  const std::int64_t whole = elements - elements % kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = widen(x[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (std::int64_t i = whole; i < elements; ++i) {
    const double value = widen(x[i]);
    lanes[i - whole] += value * value;
  }
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

void accumulate(float* accumulated, const float* addend, std::int64_t elements) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) accumulated[i] += addend[i];
}

void round_to_bf16(bf16* destination, const float* source, std::int64_t elements) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) destination[i] = to_bf16_nearest_even(source[i]);
}

}  // namespace

const GradientFunctions kGradientFunctions = {square_sum<float>, square_sum<bf16>, accumulate,
                                              round_to_bf16};

}  // namespace strata::optim::STRATA_ISA

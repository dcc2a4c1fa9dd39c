// What each instruction set's translation units offer to the dispatch one folder up. The
// files beside this one are compiled once per instruction set, in a namespace of its name; they
// hold plain loops for the compiler to vectorise, so that one source defines the arithmetic.
#pragma once

#include <cstdint>

#include "optim_cpu/optimizer.h"
#include "optim_cpu/step_constants.h"

namespace strata::optim {

// Elements [begin, end) of a state whose moments are f32 or bf16. False as optim::update().
using UpdateRange = bool (*)(Method method, const UpdateConstants& constants, const State& state,
                             std::int64_t begin, std::int64_t end);

// Moments in int8, at most kScaleElements at a time: one block and its scale. `index` is the first
// element's, in the unit, mod 2^32.
struct QuantisationFunctions {
  void (*dequantise_signed)(float* values, const std::uint8_t* codes, float scale,
                            std::int64_t elements);
  void (*dequantise_unsigned)(float* values, const std::uint8_t* codes, float scale,
                              std::int64_t elements);
  // They return the block's scale.
  float (*quantise_signed)(std::uint8_t* codes, const float* values, const RoundingKey& key,
                           std::uint32_t index, std::int64_t elements);
  float (*quantise_unsigned)(std::uint8_t* codes, const float* values, const RoundingKey& key,
                             std::uint32_t index, std::int64_t elements);
};

// As touch_state(), with a mask of 0. Any other sets, in every byte of the state, those of its bits
// that a byte of the gradient nearby has.
using TouchState = void (*)(const State& state, std::uint8_t mask);

struct GradientFunctions {
  double (*square_sum_f32)(const float* x, std::int64_t elements);
  double (*square_sum_bf16)(const bf16* x, std::int64_t elements);
  void (*accumulate)(float* accumulated, const float* addend, std::int64_t elements);
  void (*round_to_bf16)(bf16* destination, const float* source, std::int64_t elements);
};

namespace scalar {
extern const UpdateRange kUpdateRange;
extern const QuantisationFunctions kQuantisationFunctions;
extern const TouchState kTouchState;
extern const GradientFunctions kGradientFunctions;
}  // namespace scalar
namespace avx2 {
extern const UpdateRange kUpdateRange;
extern const QuantisationFunctions kQuantisationFunctions;
extern const TouchState kTouchState;
extern const GradientFunctions kGradientFunctions;
}  // namespace avx2
namespace avx512 {
extern const UpdateRange kUpdateRange;
extern const QuantisationFunctions kQuantisationFunctions;
extern const TouchState kTouchState;
extern const GradientFunctions kGradientFunctions;
}  // namespace avx512

}  // namespace strata::optim

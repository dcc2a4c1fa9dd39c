// Gradients on their way to the optimizer: sums of squares, accumulation, rounding. Pure functions,
// with the same bits from every instruction set (docs/optimizer.md).
//
// Thread contract: no state; calls on disjoint spans may run at once. `isa` must be one that this
// machine runs. Pointers need the alignment of their element type only.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/base/dtype.h"
#include "kernels/base/isa.h"

namespace strata::optim {

inline constexpr std::int64_t kSquareSumElements = 4096;  // of one sum, at most

// Sum of squares of one block of at most kSquareSumElements, in f64, in a fixed tree; sets *finite
// to false when any element is not finite. (bf16: of the stored values.)
double gradient_square_sum(std::span<const float> gradient, Isa isa, bool* finite);
double gradient_square_sum(std::span<const bf16> gradient, Isa isa, bool* finite);

// accumulated[i] += addend[i], f32.
void accumulate(std::span<float> accumulated, std::span<const float> addend, Isa isa);
// Round to nearest, ties to even.
void round_to_bf16(std::span<bf16> destination, std::span<const float> source, Isa isa);

}  // namespace strata::optim

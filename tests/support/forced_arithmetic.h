// The arithmetic of matrix products that a test forces, so that no timing decides.
#pragma once

#include <string>
#include <string_view>

#include "kernels/base/isa.h"

namespace strata::test {

// `precision` itself; f32 for bf16 where the library cannot multiply bf16, below AVX-512.
inline std::string forced_arithmetic(std::string_view precision) {
  return precision == "bf16" && best_isa() != Isa::avx512 ? "f32" : std::string(precision);
}

}  // namespace strata::test

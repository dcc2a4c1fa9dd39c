// Rows of a Matrix, typed.
#pragma once

#include "kernels/ops/cpu/isa/vec.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu::STRATA_ISA {

template <typename T>
STRATA_INLINE T* row_of(const Matrix& matrix, std::int64_t row) {
  return static_cast<T*>(matrix.data) + row * matrix.stride;
}

}  // namespace strata::ops::cpu::STRATA_ISA

// Rows of a Matrix as the loops of isa/ see them, which know the dtype (address_of() in operands.h
// is for code that does not, and may not be called here: vec.h).
#pragma once

#include "kernels/ops/cpu/isa/vec.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu::STRATA_ISA {

template <typename T>
STRATA_INLINE T* row_of(const Matrix& matrix, std::int64_t row) {
  return static_cast<T*>(matrix.data) + row * matrix.stride;
}

}  // namespace strata::ops::cpu::STRATA_ISA

// The checks of operands, made by every op before it launches. `op` is the op's name, for the
// message.
#pragma once

#include "kernels/base/error.h"
#include "kernels/ops/view.h"

namespace strata::ops {

inline void check_view(const char* op, const Matrix& matrix) {
  STRATA_CHECK(matrix.rows >= 0 && matrix.cols > 0 && matrix.stride >= matrix.cols,
               "{}: {} rows of {} columns, {} apart", op, matrix.rows, matrix.cols, matrix.stride);
  STRATA_CHECK(matrix.data != nullptr || matrix.rows == 0, "{}: a null operand", op);
}

// Two operands that are views of the same shape.
inline void check_same_shape(const char* op, const Matrix& a, const Matrix& b) {
  check_view(op, a);
  check_view(op, b);
  STRATA_CHECK(a.rows == b.rows && a.cols == b.cols, "{}: ({}, {}) does not match ({}, {})", op,
               a.rows, a.cols, b.rows, b.cols);
}

inline void check_dtype(const char* op, const Matrix& matrix, Dtype dtype) {
  STRATA_CHECK(matrix.dtype == dtype, "{}: an operand is {}, not {}", op, name_of(matrix.dtype),
               name_of(dtype));
}

// An operand that may be wider than the others.
inline void check_dtype_or_f32(const char* op, const Matrix& matrix, Dtype dtype) {
  if (matrix.dtype != Dtype::f32) check_dtype(op, matrix, dtype);
}

}  // namespace strata::ops

// Operands of CPU ops: where their elements lie, and their byte ranges told to ThreadSanitizer.
#pragma once

#include <cstddef>

#include "kernels/base/annotate.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu {

inline constexpr std::int64_t kF32Bytes = 4;
inline constexpr std::int64_t kIdBytes = 4;  // token ids and targets, i32

// Of an element, for code that does not know the dtype.
inline std::byte* address_of(const Matrix& matrix, std::int64_t row, std::int64_t col = 0) {
  return static_cast<std::byte*>(matrix.data) +
         (row * matrix.stride + col) * bytes_of(matrix.dtype);
}

using strata::annotate_read;
using strata::annotate_write;

// The elements alone: what lies between the rows may belong to others.
inline void annotate_read(const Matrix& matrix) {
  if (matrix.stride == matrix.cols) {
    annotate_read(matrix.data, matrix.span_bytes());
    return;
  }
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    annotate_read(address_of(matrix, row), matrix.cols * bytes_of(matrix.dtype));
  }
}

inline void annotate_write(const Matrix& matrix) {
  if (matrix.stride == matrix.cols) {
    annotate_write(matrix.data, matrix.span_bytes());
    return;
  }
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    annotate_write(address_of(matrix, row), matrix.cols * bytes_of(matrix.dtype));
  }
}

}  // namespace strata::ops::cpu

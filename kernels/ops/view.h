// Matrix: a view of row-major device memory that ops read and write. Owns nothing.
//
// How every op here is built: the function in kernels/ops/<op>.cc checks its operands. For a cuda
// device it hands them to CudaOps (cuda_ops.h); for the cpu device it launches the body in
// kernels/ops/cpu/<op>.cc, which runs on the stream's thread and annotates and tiles the work.
#pragma once

#include <cstdint>

#include "kernels/base/dtype.h"

namespace strata::ops {

struct Matrix {
  void* data = nullptr;
  Dtype dtype = Dtype::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  // elements from one row to the next, >= cols

  // Dense rows.
  static Matrix dense(void* data, Dtype dtype, std::int64_t rows, std::int64_t cols) {
    return {data, dtype, rows, cols, cols};
  }
  std::int64_t span_bytes() const {
    return rows == 0 ? 0 : ((rows - 1) * stride + cols) * bytes_of(dtype);
  }
};

// Whether an op that produces parameter gradients replaces what is there or adds to it.
enum class Into : std::uint8_t { overwrite, add };

}  // namespace strata::ops

#include "kernels/ops/attention.h"

#include "kernels/base/error.h"
#include "kernels/ops/cpu/attention.h"

namespace strata::ops {
namespace {

void check_operand(const AttentionShape& shape, const Matrix& matrix, std::int64_t cols,
                   Dtype dtype) {
  STRATA_CHECK(matrix.data != nullptr && matrix.rows == shape.rows() && matrix.cols == cols &&
                   matrix.stride >= cols && matrix.dtype == dtype,
               "attention: ({}, {}) {} where ({}, {}) {} belongs", matrix.rows, matrix.cols,
               name_of(matrix.dtype), shape.rows(), cols, name_of(dtype));
}

void check_shape(const AttentionShape& shape) {
  STRATA_CHECK(shape.batch > 0 && shape.tokens > 0 && shape.heads > 0 && shape.head_dim > 0);
}

}  // namespace

void attention_forward(Stream& stream, const AttentionShape& shape, Matrix out, float* log_sum_exp,
                       Matrix qkv) {
  check_shape(shape);
  check_operand(shape, qkv, 3 * shape.channels(), qkv.dtype);
  check_operand(shape, out, shape.channels(), qkv.dtype);
  STRATA_CHECK(log_sum_exp != nullptr);
  switch (stream.device().kind()) {
    case DeviceKind::cpu:
      return cpu::attention_forward(as_cpu(stream), shape, out, log_sum_exp, qkv);
    case DeviceKind::cuda:
      STRATA_CHECK(false, "attention_forward has no CUDA implementation");
  }
}

void attention_backward(Stream& stream, const AttentionShape& shape, Matrix dqkv, float* row_dots,
                        Matrix dout, Matrix qkv, Matrix out, const float* log_sum_exp) {
  check_shape(shape);
  check_operand(shape, qkv, 3 * shape.channels(), qkv.dtype);
  check_operand(shape, dqkv, 3 * shape.channels(), qkv.dtype);
  check_operand(shape, out, shape.channels(), qkv.dtype);
  check_operand(shape, dout, shape.channels(), qkv.dtype);
  STRATA_CHECK(row_dots != nullptr && log_sum_exp != nullptr);
  switch (stream.device().kind()) {
    case DeviceKind::cpu:
      return cpu::attention_backward(as_cpu(stream), shape, dqkv, row_dots, dout, qkv, out,
                                     log_sum_exp);
    case DeviceKind::cuda:
      STRATA_CHECK(false, "attention_backward has no CUDA implementation");
  }
}

}  // namespace strata::ops

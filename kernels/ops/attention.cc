#include "kernels/ops/attention.h"

#include "kernels/device/cpu_device.h"
#include "kernels/ops/checks.h"
#include "kernels/ops/cpu/attention.h"

namespace strata::ops {
namespace {

void check_shape(const char* op, const AttentionShape& shape) {
  STRATA_CHECK(shape.batch > 0 && shape.tokens > 0 && shape.heads > 0 && shape.head_dim > 0,
               "{}: {} x {} tokens, {} heads of {}", op, shape.batch, shape.tokens, shape.heads,
               shape.head_dim);
}

void check_operand(const char* op, const AttentionShape& shape, const Matrix& matrix,
                   std::int64_t cols, Dtype dtype) {
  check_view(op, matrix);
  check_dtype(op, matrix, dtype);
  STRATA_CHECK(matrix.rows == shape.rows() && matrix.cols == cols,
               "{}: ({}, {}) where ({}, {}) belongs", op, matrix.rows, matrix.cols, shape.rows(),
               cols);
}

}  // namespace

void attention_forward(Stream& stream, const AttentionShape& shape, Matrix out, float* log_sum_exp,
                       Matrix qkv) {
  constexpr const char* kName = "attention_forward";
  check_shape(kName, shape);
  check_operand(kName, shape, qkv, 3 * shape.channels(), qkv.dtype);
  check_operand(kName, shape, out, shape.channels(), qkv.dtype);
  STRATA_CHECK(log_sum_exp != nullptr, "{}: no memory for the log-sums", kName);
  as_cpu(stream).launch(kName, [=](CpuDevice& device) {
    cpu::attention_forward(device, shape, out, log_sum_exp, qkv);
  });
}

void attention_backward(Stream& stream, const AttentionShape& shape, Matrix dqkv, float* row_dots,
                        Matrix dout, Matrix qkv, Matrix out, const float* log_sum_exp) {
  constexpr const char* kName = "attention_backward";
  check_shape(kName, shape);
  check_operand(kName, shape, qkv, 3 * shape.channels(), qkv.dtype);
  check_operand(kName, shape, dqkv, 3 * shape.channels(), qkv.dtype);
  check_operand(kName, shape, out, shape.channels(), qkv.dtype);
  check_operand(kName, shape, dout, shape.channels(), qkv.dtype);
  STRATA_CHECK(row_dots != nullptr && log_sum_exp != nullptr,
               "{}: no memory for the row dots, or no log-sums", kName);
  as_cpu(stream).launch(kName, [=](CpuDevice& device) {
    cpu::attention_backward(device, shape, dqkv, row_dots, dout, qkv, out, log_sum_exp);
  });
}

}  // namespace strata::ops

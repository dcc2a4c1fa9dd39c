#include "kernels/ops/attention.h"

#include <cmath>

#include "kernels/device/cpu_device.h"
#include "kernels/ops/checks.h"
#include "kernels/ops/cpu/attention.h"
#include "kernels/ops/cuda_ops.h"

namespace strata::ops {
namespace {

void check_shape(const char* op, const AttentionShape& shape, const AttentionOptions& options) {
  STRATA_CHECK(shape.batch > 0 && shape.tokens > 0 && shape.heads > 0 && shape.kv_heads > 0 &&
                   shape.head_dim > 0,
               "{}: {} x {} tokens, {} heads and {} KV heads of {}", op, shape.batch, shape.tokens,
               shape.heads, shape.kv_heads, shape.head_dim);
  STRATA_CHECK(shape.heads % shape.kv_heads == 0, "{}: {} heads do not share {} KV heads evenly",
               op, shape.heads, shape.kv_heads);
  STRATA_CHECK(options.window >= 0, "{}: a window of {} tokens", op, options.window);
  STRATA_CHECK(!options.scale.has_value() || (*options.scale > 0 && std::isfinite(*options.scale)),
               "{}: scores scaled by {}", op, *options.scale);
}

void check_operand(const char* op, const AttentionShape& shape, const Matrix& matrix,
                   std::int64_t cols, Dtype dtype) {
  check_view(op, matrix);
  check_dtype(op, matrix, dtype);
  STRATA_CHECK(matrix.rows == shape.rows() && matrix.cols == cols,
               "{}: ({}, {}) where ({}, {}) belongs", op, matrix.rows, matrix.cols, shape.rows(),
               cols);
}

void check_operands(const char* op, const AttentionShape& shape, const Qkv& qkv, Dtype dtype) {
  check_operand(op, shape, qkv.q, shape.channels(), dtype);
  check_operand(op, shape, qkv.k, shape.kv_channels(), dtype);
  check_operand(op, shape, qkv.v, shape.kv_channels(), dtype);
}

}  // namespace

Qkv unpack(const AttentionShape& shape, const Matrix& packed) {
  check_operand("unpack", shape, packed, shape.packed_channels(), packed.dtype);
  const auto columns = [&](std::int64_t first, std::int64_t cols) {
    return Matrix{static_cast<std::byte*>(packed.data) + first * bytes_of(packed.dtype),
                  packed.dtype, packed.rows, cols, packed.stride};
  };
  return {.q = columns(0, shape.channels()),
          .k = columns(shape.channels(), shape.kv_channels()),
          .v = columns(shape.channels() + shape.kv_channels(), shape.kv_channels())};
}

void attention_forward(Stream& stream, const AttentionShape& shape, const AttentionOptions& options,
                       Matrix out, float* log_sum_exp, const Qkv& qkv) {
  constexpr const char* kName = "attention_forward";
  check_shape(kName, shape, options);
  check_operands(kName, shape, qkv, qkv.q.dtype);
  check_operand(kName, shape, out, shape.channels(), qkv.q.dtype);
  STRATA_CHECK(log_sum_exp != nullptr, "{}: no memory for the log-sums", kName);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->attention_forward(stream, shape, options, out, log_sum_exp, qkv);
  }
  as_cpu(stream).launch(kName, [=](CpuDevice& device) {
    cpu::attention_forward(device, shape, options, out, log_sum_exp, qkv);
  });
}

void attention_backward(Stream& stream, const AttentionShape& shape,
                        const AttentionOptions& options, const Qkv& gradients, float* row_dots,
                        Matrix dout, const Qkv& qkv, Matrix out, const float* log_sum_exp) {
  constexpr const char* kName = "attention_backward";
  check_shape(kName, shape, options);
  check_operands(kName, shape, qkv, qkv.q.dtype);
  check_operands(kName, shape, gradients, qkv.q.dtype);
  check_operand(kName, shape, out, shape.channels(), qkv.q.dtype);
  check_operand(kName, shape, dout, shape.channels(), qkv.q.dtype);
  STRATA_CHECK(row_dots != nullptr && log_sum_exp != nullptr,
               "{}: no memory for the row dots, or no log-sums", kName);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->attention_backward(stream, shape, options, gradients, row_dots, dout, qkv, out,
                                    log_sum_exp);
  }
  as_cpu(stream).launch(kName, [=](CpuDevice& device) {
    cpu::attention_backward(device, shape, options,
                            {gradients, row_dots, dout, qkv, out, log_sum_exp});
  });
}

void attention_with_cache(Stream& stream, const AttentionShape& shape,
                          const AttentionOptions& options, Matrix out, const Qkv& qkv,
                          const KvCache& cache, std::int64_t past) {
  constexpr const char* kName = "attention_with_cache";
  check_shape(kName, shape, options);
  check_operands(kName, shape, qkv, qkv.q.dtype);
  check_operand(kName, shape, out, shape.channels(), qkv.q.dtype);
  check_same_shape(kName, cache.k, cache.v);
  check_dtype(kName, cache.k, qkv.k.dtype);
  check_dtype(kName, cache.v, qkv.v.dtype);
  STRATA_CHECK(cache.k.cols == shape.kv_channels(), "{}: a cache of {} columns for {}", kName,
               cache.k.cols, shape.kv_channels());
  STRATA_CHECK(shape.batch == 1 && options.document_starts == nullptr,
               "{}: one sequence of one document at a time", kName);
  STRATA_CHECK(past >= 0 && past + shape.tokens <= cache.k.rows,
               "{}: {} tokens after {} in a cache of {}", kName, shape.tokens, past, cache.k.rows);
  if (CudaOps* const cuda = cuda_ops(stream)) {
    return cuda->attention_with_cache(stream, shape, options, out, qkv, cache, past);
  }
  as_cpu(stream).launch(kName, [=](CpuDevice& device) {
    cpu::attention_with_cache(device, shape, options, out, qkv, cache, past);
  });
}

}  // namespace strata::ops

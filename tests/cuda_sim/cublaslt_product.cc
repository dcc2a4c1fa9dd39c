#include "cuda_sim/cublaslt_product.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "cuda_sim/memory.h"
#include "kernels/base/dtype.h"

namespace strata::cuda_sim {
namespace {

// Column by column, so that what lies between columns is not touched.
float read(const std::byte* column, cudaDataType type, std::int64_t row) {
  if (type == CUDA_R_32F) return reinterpret_cast<const float*>(column)[row];
  return to_float(reinterpret_cast<const bf16*>(column)[row]);
}
template <Access access>
std::byte* column_of(const void* matrix, const MatrixLayout& layout, std::int64_t col) {
  const auto* const at =
      static_cast<const std::byte*>(matrix) + col * layout.stride * layout.element_bytes();
  return static_cast<std::byte*>(checked_range(at, layout.rows * layout.element_bytes(), access));
}

// op(matrix) as rows of op(matrix)ᵀ: (cols of op(matrix), rows of op(matrix)), dense.
std::vector<float> columns_of(const void* matrix, const MatrixLayout& layout,
                              cublasOperation_t operation) {
  std::vector<float> values(static_cast<std::size_t>(layout.rows * layout.cols));
  for (std::int64_t col = 0; col < layout.cols; ++col) {
    const std::byte* const column = column_of<Access::read>(matrix, layout, col);
    for (std::int64_t row = 0; row < layout.rows; ++row) {
      const std::int64_t to =
          operation == CUBLAS_OP_N ? col * layout.rows + row : row * layout.cols + col;
      values[static_cast<std::size_t>(to)] = read(column, layout.type, row);
    }
  }
  return values;
}

void write(std::byte* column, cudaDataType type, std::int64_t row, float value) {
  if (type == CUDA_R_32F) {
    reinterpret_cast<float*>(column)[row] = value;
  } else {
    reinterpret_cast<bf16*>(column)[row] = to_bf16_nearest_even(value);
  }
}

// The tanh form.
double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double k = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(k * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}

// What an epilogue makes of an entry of a column; `aux` is the column's.
float finish(const Problem& problem, std::byte* aux, std::int64_t row, float value) {
  if (problem.product.keeps_gelu_input()) {
    write(aux, problem.d.type, row, value);
    return static_cast<float>(gelu(value));
  }
  if (!problem.product.has_aux()) return value;
  return static_cast<float>(value * gelu_slope(read(aux, problem.d.type, row)));
}

}  // namespace

bool Problem::supported() const {
  const bool bf16_factors = a.type == CUDA_R_16BF && b.type == CUDA_R_16BF;
  const bool f32_factors = a.type == CUDA_R_32F && b.type == CUDA_R_32F;
  const bool types = (bf16_factors && (d.type == CUDA_R_16BF || d.type == CUDA_R_32F)) ||
                     (f32_factors && d.type == CUDA_R_32F);
  const bool known =
      product.epilogue == CUBLASLT_EPILOGUE_DEFAULT || product.has_bias() || product.has_aux();
  const bool bias = !product.has_bias() || product.bias != nullptr;
  const bool aux = !product.has_aux() || (product.aux != nullptr && product.aux_stride % 8 == 0 &&
                                          product.aux_stride >= d.rows && a.type == d.type);
  return types && known && bias && aux && product.compute == CUBLAS_COMPUTE_32F &&
         product.scale_type == CUDA_R_32F;
}

std::uint16_t Problem::hash() const {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](auto value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3;
  };
  for (const MatrixLayout& matrix : {a, b, d}) {
    add(matrix.type);
    add(matrix.rows);
    add(matrix.cols);
    add(matrix.stride);
  }
  add(product.a_operation);
  add(product.b_operation);
  add(product.epilogue);
  add(product.aux_stride);
  return static_cast<std::uint16_t>(hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48);
}

void multiply(const Problem& problem, const Operands& operands, bool backwards) {
  const MatrixLayout& d = problem.d;
  const std::int64_t k_count = problem.sums();
  const auto a = columns_of(operands.a, problem.a, problem.product.a_operation);
  const auto b = columns_of(operands.b, problem.b, problem.product.b_operation);
  std::vector<float> bias(static_cast<std::size_t>(d.rows));
  if (problem.product.has_bias()) {
    const MatrixLayout vector = {d.type, d.rows, 1, d.rows};
    const std::byte* const entries = column_of<Access::read>(problem.product.bias, vector, 0);
    for (std::int64_t row = 0; row < d.rows; ++row) {
      bias[static_cast<std::size_t>(row)] = read(entries, d.type, row);
    }
  }
  const MatrixLayout aux = {d.type, d.rows, d.cols, problem.product.aux_stride};
  std::vector<float> sums(static_cast<std::size_t>(d.rows));
  for (std::int64_t col = 0; col < d.cols; ++col) {
    std::ranges::fill(sums, 0.0f);
    for (std::int64_t i = 0; i < k_count; ++i) {
      const std::int64_t k = backwards ? k_count - 1 - i : i;
      const float factor = b[static_cast<std::size_t>(col * k_count + k)];
      const float* const column = &a[static_cast<std::size_t>(k * d.rows)];
      for (std::size_t row = 0; row < sums.size(); ++row) sums[row] += factor * column[row];
    }
    std::byte* const to = operands.beta == 0 ? column_of<Access::write>(operands.d, d, col)
                                             : column_of<Access::read>(operands.d, d, col);
    std::byte* gelu_input = nullptr;
    if (problem.product.has_aux()) {
      gelu_input = problem.product.keeps_gelu_input()
                       ? column_of<Access::write>(problem.product.aux, aux, col)
                       : column_of<Access::read>(problem.product.aux, aux, col);
    }
    for (std::int64_t row = 0; row < d.rows; ++row) {
      float value = operands.alpha * sums[static_cast<std::size_t>(row)];
      if (operands.beta != 0) value += operands.beta * read(to, d.type, row);
      value += bias[static_cast<std::size_t>(row)];
      write(to, d.type, row, finish(problem, gelu_input, row, value));
    }
  }
}

}  // namespace strata::cuda_sim

#include "kernels/ops/cpu/factor.h"

#include "kernels/base/bytes.h"
#include "kernels/ops/cpu/kernel_table.h"
#include "kernels/ops/cpu/operands.h"

namespace strata::ops::cpu {
namespace {

constexpr std::int64_t kCacheLineElements = 16;

std::int64_t panel_stride(std::int64_t cols) {
  return round_up(cols, kCacheLineElements) + kCacheLineElements;
}

}  // namespace

Matrix block(const Matrix& matrix, std::int64_t row, std::int64_t rows, std::int64_t col,
             std::int64_t cols) {
  return {address_of(matrix, row, col), matrix.dtype, rows, cols, matrix.stride};
}

Factor block(const Factor& factor, std::int64_t row, std::int64_t rows, std::int64_t col,
             std::int64_t cols) {
  return {factor.layout == Layout::plain ? block(factor.memory, row, rows, col, cols)
                                         : block(factor.memory, col, cols, row, rows),
          factor.layout};
}

void run_gemm(GemmCache& gemms, int worker, void* scratchpad, const Matrix& c, const Factor& a,
              const Factor& b, Into into, const void* bias) {
  const Gemm& gemm = gemms.get({
      .m = c.rows,
      .n = c.cols,
      .k = a.cols(),
      .a_stride = a.memory.stride,
      .b_stride = b.memory.stride,
      .c_stride = c.stride,
      .a_layout = a.layout,
      .b_layout = b.layout,
      .operands = a.memory.dtype,
      .result = c.dtype,
      .into = into,
      .bias = bias == nullptr ? Bias::none : Bias::per_column,
  });
  // What the compiled code does, which ThreadSanitizer does not see.
  annotate_read(a.memory);
  annotate_read(b.memory);
  if (bias != nullptr) annotate_read(bias, c.cols * bytes_of(a.memory.dtype));
  annotate_write(c);
  gemm.run(worker, c.data, a.memory.data, b.memory.data, bias, scratchpad);
}

Matrix panel_matrix(float* panel, std::int64_t rows, std::int64_t cols) {
  return {panel, Dtype::f32, rows, cols, panel_stride(cols)};
}

std::int64_t panel_elements(std::int64_t rows, std::int64_t cols) {
  return rows * panel_stride(cols);
}

Matrix widen(Isa isa, const Matrix& from, float* panel) {
  const auto widen_row = kernel_table(isa).elementwise.widen;
  const Matrix to = panel_matrix(panel, from.rows, from.cols);
  for (std::int64_t row = 0; row < from.rows; ++row) {
    widen_row(address_of(to, row), address_of(from, row), from.cols);
  }
  return to;
}

Factor widen(Isa isa, const Factor& from, float* panel) {
  return {widen(isa, from.memory, panel), from.layout};
}

}  // namespace strata::ops::cpu

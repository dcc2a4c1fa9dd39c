#include "kernels/ops/cpu/linear.h"

#include <algorithm>

#include "kernels/ops/cpu/kernel_table.h"
#include "kernels/ops/cpu/matmul.h"
#include "kernels/ops/cpu/operands.h"
#include "kernels/ops/cpu/tiles.h"

namespace strata::ops::cpu {
namespace {

constexpr std::int64_t kSumRows = 256;  // rows of a group
constexpr std::int64_t kSumCols = 256;  // columns of a tile

void annotate_result(const Matrix& matrix, Into into) {
  if (into == Into::add) annotate_read(matrix);
  annotate_write(matrix);
}

void multiply(CpuDevice& device, MatmulKind kind, std::int64_t n, std::int64_t k,
              const Product& product) {
  MatmulState& state = matmul_state(device);
  const TiledMatmul matmul(state, product, state.arithmetic(product.a.memory.dtype, kind, n, k));
  device.workers().parallel_for(
      matmul.tiles(), [&](std::int64_t tile, int worker) { matmul.run_tile(tile, worker); });
}

// sums (N) = or += the column sums of `rows` (M, N), for columns [begin, end), at most kSumCols.
void sum_columns(const ElementwiseKernels& kernels, float* sums, const Matrix& rows,
                 std::int64_t begin, std::int64_t end, Into into) {
  const std::int64_t cols = end - begin;
  float total[kSumCols] = {};
  for (std::int64_t first = 0; first < rows.rows; first += kSumRows) {
    float group[kSumCols] = {};
    for (std::int64_t row = first; row < std::min(rows.rows, first + kSumRows); ++row) {
      kernels.accumulate[rows.dtype](group, address_of(rows, row, begin), cols);
    }
    kernels.accumulate[Dtype::f32](total, group, cols);
  }
  if (into == Into::add) {
    kernels.accumulate[Dtype::f32](sums + begin, total, cols);
  } else {
    std::copy_n(total, cols, sums + begin);
  }
}

}  // namespace

void linear_forward(CpuDevice& device, const Matrix& y, const Matrix& x, const Matrix& w,
                    const void* bias) {
  annotate_read(x);
  annotate_read(w);
  if (bias != nullptr) annotate_read(bias, w.rows * bytes_of(w.dtype));
  annotate_write(y);
  multiply(device, MatmulKind::forward, w.rows, w.cols,
           {.c = y, .a = {x}, .b = {w, Layout::transposed}, .bias = bias});
}

void linear_backward_input(CpuDevice& device, const Matrix& dx, const Matrix& dy, const Matrix& w,
                           Into into) {
  annotate_read(dy);
  annotate_read(w);
  annotate_result(dx, into);
  multiply(device, MatmulKind::backward_input, w.rows, w.cols,
           {.c = dx, .a = {dy}, .b = {w}, .into = into});
}

void linear_backward_weight(CpuDevice& device, const Matrix& dw, float* dbias, const Matrix& dy,
                            const Matrix& x, Into into) {
  annotate_read(dy);
  annotate_read(x);
  annotate_result(dw, into);
  multiply(device, MatmulKind::backward_weight, dw.rows, dw.cols,
           {.c = dw, .a = {dy, Layout::transposed}, .b = {x}, .into = into});
  if (dbias == nullptr) return;
  annotate_result(Matrix::dense(dbias, Dtype::f32, 1, dy.cols), into);
  const ElementwiseKernels& kernels = kernel_table(op_state(device).isa).elementwise;
  for_each_range(device, dy.cols, kSumCols, [&](std::int64_t begin, std::int64_t end) {
    sum_columns(kernels, dbias, dy, begin, end, into);
  });
}

}  // namespace strata::ops::cpu

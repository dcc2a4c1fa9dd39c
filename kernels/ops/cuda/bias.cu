#include "kernels/ops/cuda/bias.h"

#include "kernels/ops/cuda/pieces.h"

namespace strata::ops::cuda {
namespace {

// Floor: y written once.
template <typename T, typename Bias>
__global__ void __launch_bounds__(256) fill_rows(PieceGrid grid, Rows<T> y, const Bias* bias) {
  constexpr int kColumns = kPieceColumns<T, Bias>;
  for_own_piece<kColumns>(grid, [&](std::int64_t row, std::int64_t column, auto part) {
    store_piece(y.at(row, column), load_piece<kColumns>(bias + column, part), part);
  });
}

// Row g of `sums` (groups, N) = the sum of rows [g·group_rows, …) of dy. Floor: dy read once.
template <typename T>
__global__ void __launch_bounds__(256) sum_groups(PieceGrid grid, float* sums, Rows<const T> dy,
                                                  std::int64_t rows, std::int64_t group_rows) {
  constexpr int kColumns = kPieceColumns<T>;
  for_own_piece<kColumns>(grid, [&](std::int64_t group, std::int64_t column, auto part) {
    Piece<kColumns> sum = {};
    const std::int64_t first = group * group_rows;
    const std::int64_t end = std::min(rows, first + group_rows);
#pragma unroll 8
    for (std::int64_t row = first; row < end; ++row) {
      const auto piece = load_piece<kColumns>(dy.at(row, column), part);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) sum.at[i] = add_rn(sum.at[i], piece.at[i]);
    }
    for (int i = 0; i < kColumns; ++i) {
      if (column + i < grid.cols) store(sums + group * grid.cols + column + i, sum.at[i]);
    }
  });
}

// dbias (N) = or += the sums of columns. Floor: `sums` read once.
__global__ void __launch_bounds__(256)
    add_groups(float* dbias, const float* sums, std::int64_t groups, std::int64_t cols, Into into) {
  const std::int64_t column = block_x() * block_threads() + thread_index();
  if (column >= cols) return;
  float sum = 0;
#pragma unroll 8
  for (std::int64_t group = 0; group < groups; ++group) {
    sum = add_rn(sum, load(sums + group * cols + column));
  }
  store(dbias + column, into == Into::add ? add_rn(load(dbias + column), sum) : sum);
}

}  // namespace

void bias_into_rows(cudaStream_t stream, const Matrix& y, const void* bias, Dtype bias_dtype) {
  const PieceGrid grid = {y.rows, y.cols, allow_vectors(y) && allow_vectors(bias)};
  with_type(y.dtype, [&]<typename T>() {
    with_type(bias_dtype, [&]<typename Bias>() {
      launch_pieces<kPieceColumns<T, Bias>>("linear_forward", stream, grid, fill_rows<T, Bias>,
                                            rows_of<T>(y), static_cast<const Bias*>(bias));
    });
  });
}

void bias_gradient(cudaStream_t stream, const Scratch& scratch, float* dbias, const Matrix& dy,
                   Into into) {
  constexpr const char* kName = "linear_backward_weight";
  const std::int64_t groups_max = std::min(kBiasGroupsMax, ceil_div(dy.rows, kBiasGroupRowsMin));
  const std::int64_t group_rows =
      ceil_div(dy.rows, std::clamp<std::int64_t>(kBiasSums / dy.cols, 1, groups_max));
  const std::int64_t groups = ceil_div(dy.rows, group_rows);
  float* const sums = scratch.as<float>(kName, groups * dy.cols);
  with_type(dy.dtype, [&]<typename T>() {
    launch_pieces<kPieceColumns<T>>(kName, stream, {groups, dy.cols, allow_vectors(dy)},
                                    sum_groups<T>, sums, rows_of<const T>(dy), dy.rows, group_rows);
  });
  check(launch(stream, {.blocks_x = ceil_div(dy.cols, 256)}, add_groups, dbias, sums, groups,
               dy.cols, into),
        kName);
}

}  // namespace strata::ops::cuda

#include "kernels/ops/cpu/matmul.h"

#include <algorithm>

#include "kernels/ops/cpu/kernel_table.h"
#include "kernels/ops/cpu/operands.h"

namespace strata::ops::cpu {
namespace {

constexpr std::int64_t kTileRowsMax = 256;
constexpr std::int64_t kTileColsMax = 512;
constexpr std::int64_t kTileColsMin = 128;  // narrower ones lose speed
constexpr std::int64_t kTilesWanted = 16;
constexpr std::int64_t kTileRowsMultiple = 32;  // whole register blocks
constexpr std::int64_t kTileColsMultiple = 64;
constexpr std::int64_t kPanelDepth = 512;  // of k, in widened matmuls

// to (rows, cols) = sums (rows, cols) f32 + bias (cols), rounded once. Uses sums up; `to` is they
// themselves or bf16.
void store_sums(const ElementwiseKernels& kernels, const Matrix& to, const Matrix& sums,
                const void* bias, Dtype bias_dtype) {
  for (std::int64_t row = 0; row < to.rows; ++row) {
    auto* sums_row = reinterpret_cast<float*>(address_of(sums, row));
    if (bias != nullptr) kernels.accumulate[bias_dtype](sums_row, bias, to.cols);
    if (to.data != sums.data) kernels.round(address_of(to, row), sums_row, to.cols);
  }
}

}  // namespace

Tiling tiling_of(std::int64_t m, std::int64_t n) {
  const std::int64_t row_tiles = ceil_div(m, kTileRowsMax);
  const std::int64_t col_tiles =
      std::max(ceil_div(n, kTileColsMax),
               std::min(ceil_div(n, kTileColsMin), ceil_div(kTilesWanted, row_tiles)));
  const std::int64_t tile_rows = round_up(ceil_div(m, row_tiles), kTileRowsMultiple);
  const std::int64_t tile_cols = round_up(ceil_div(n, col_tiles), kTileColsMultiple);
  return {tile_rows, tile_cols, ceil_div(m, tile_rows), ceil_div(n, tile_cols)};
}

TiledMatmul::TiledMatmul(MatmulState& state, const Product& product, Dtype arithmetic)
    : state_(state),
      product_(product),
      arithmetic_(arithmetic),
      tiling_(tiling_of(product.c.rows, product.c.cols)) {
  STRATA_CHECK(product.a.rows() == product.c.rows && product.b.cols() == product.c.cols &&
               product.a.cols() == product.b.rows());
  STRATA_CHECK(product.a.memory.dtype == product.b.memory.dtype);
  STRATA_CHECK(arithmetic == Dtype::f32 || product.a.memory.dtype == Dtype::bf16);
}

TiledMatmul::Tile TiledMatmul::tile_at(std::int64_t tile) const {
  const std::int64_t row = tile / tiling_.col_tiles * tiling_.tile_rows;
  const std::int64_t col = tile % tiling_.col_tiles * tiling_.tile_cols;
  const std::int64_t rows = std::min(tiling_.tile_rows, product_.c.rows - row);
  const std::int64_t cols = std::min(tiling_.tile_cols, product_.c.cols - col);
  const std::int64_t k = product_.a.cols();
  const std::int64_t bias_offset_bytes = col * bytes_of(product_.a.memory.dtype);
  return {
      .c = block(product_.c, row, rows, col, cols),
      .a = block(product_.a, row, rows, 0, k),
      .b = block(product_.b, 0, k, col, cols),
      .bias = product_.bias == nullptr
                  ? nullptr
                  : static_cast<const std::byte*>(product_.bias) + bias_offset_bytes,
  };
}

void TiledMatmul::run_tile(std::int64_t tile, int worker) const {
  ScratchFrame scratch = state_.matmul_scratch.frame(worker);
  if (product_.a.memory.dtype == arithmetic_) {
    run_direct(tile_at(tile), worker, scratch);
  } else {
    run_widened(tile_at(tile), worker, scratch);
  }
}

void TiledMatmul::run_direct(const Tile& tile, int worker, ScratchFrame& scratch) const {
  run_gemm(state_.gemms, worker, scratch.take<std::byte>(kGemmScratchpadBytes), tile.c, tile.a,
           tile.b, product_.into, tile.bias);
}

void TiledMatmul::run_widened(const Tile& tile, int worker, ScratchFrame& scratch) const {
  const std::int64_t k = tile.a.cols();
  const std::int64_t depth = std::min(k, kPanelDepth);
  const auto panel_for = [&](const Matrix& matrix) {
    return scratch.take<float>(panel_elements(matrix.rows, matrix.cols));
  };
  auto* scratchpad = scratch.take<std::byte>(kGemmScratchpadBytes);
  float* a_panel = panel_for(block(tile.a, 0, tile.c.rows, 0, depth).memory);
  float* b_panel = panel_for(block(tile.b, 0, depth, 0, tile.c.cols).memory);
  // An f32 result is summed in place.
  const Matrix sums = tile.c.dtype == Dtype::f32
                          ? tile.c
                          : panel_matrix(panel_for(tile.c), tile.c.rows, tile.c.cols);

  for (std::int64_t first = 0; first < k; first += depth) {
    const std::int64_t terms = std::min(depth, k - first);
    const Factor a = widen(state_.isa, block(tile.a, 0, tile.c.rows, first, terms), a_panel);
    const Factor b = widen(state_.isa, block(tile.b, first, terms, 0, tile.c.cols), b_panel);
    run_gemm(state_.gemms, worker, scratchpad, sums, a, b, first == 0 ? product_.into : Into::add);
  }
  store_sums(kernel_table(state_.isa).elementwise, tile.c, sums, tile.bias, tile.a.memory.dtype);
}

std::int64_t matmul_scratch_bytes(const CpuOpsLimits& limits) {
  const std::int64_t largest =
      std::max({limits.weight_rows_max, limits.weight_cols_max, limits.rows_max});
  const std::int64_t rows = std::min(kTileRowsMax, largest);
  const std::int64_t cols = std::min(kTileColsMax, largest);
  const std::int64_t depth = std::min(kPanelDepth, largest);
  const auto panel_bytes = [](std::int64_t a, std::int64_t b) {  // either way round
    return scratch_bytes<float>(std::max(panel_elements(a, b), panel_elements(b, a)));
  };
  return scratch_bytes<std::byte>(kGemmScratchpadBytes) + panel_bytes(rows, depth) +
         panel_bytes(depth, cols) + panel_bytes(rows, cols);
}

}  // namespace strata::ops::cpu

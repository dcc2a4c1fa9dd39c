// TiledMatmul: C (m, n) = or += A (m, k) · B (k, n) + bias (n), cut into tiles of C that depend on
// the shape alone. A tile is one Gemm; or, where bf16 operands are multiplied as f32, one Gemm for
// each panel of k, on operands widened into the worker's scratch. Sums are f32; a bf16 C is rounded
// once.
#pragma once

#include <cstdint>

#include "kernels/ops/cpu/factor.h"
#include "kernels/ops/cpu/matmul_state.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu {

struct Product {
  Matrix c;
  Factor a;
  Factor b;                    // of a's dtype
  const void* bias = nullptr;  // of a's dtype, or null
  Into into = Into::overwrite;
};

// Equal tiles (but for the last row and column of tiles), at most 256 x 512.
struct Tiling {
  std::int64_t tile_rows;
  std::int64_t tile_cols;
  std::int64_t row_tiles;
  std::int64_t col_tiles;
};
Tiling tiling_of(std::int64_t m, std::int64_t n);

class TiledMatmul {
 public:
  // `arithmetic`: bf16 needs bf16 operands and a library that multiplies them.
  TiledMatmul(MatmulState& state, const Product& product, Dtype arithmetic);

  std::int64_t tiles() const { return tiling_.row_tiles * tiling_.col_tiles; }
  void run_tile(std::int64_t tile, int worker) const;

 private:
  struct Tile {
    Matrix c;
    Factor a;
    Factor b;
    const void* bias;
  };
  Tile tile_at(std::int64_t tile) const;
  void run_direct(const Tile& tile, int worker, ScratchFrame& scratch) const;
  void run_widened(const Tile& tile, int worker, ScratchFrame& scratch) const;

  MatmulState& state_;
  Product product_;
  Dtype arithmetic_;
  Tiling tiling_;
};

// Scratch of one worker.
std::int64_t matmul_scratch_bytes(const CpuOpsLimits& limits);

}  // namespace strata::ops::cpu

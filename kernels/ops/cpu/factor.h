// Factor: a matrix as an operand of a matmul, plain or transposed; with blocks of factors and
// matrices, one Gemm on them, and panels: padded f32 matrices in scratch memory, into which bf16
// operands are widened where they are multiplied as f32.
//
// Views own nothing. Everything runs on the calling thread, a worker that runs a tile: its index
// picks what it has of the Gemm, and `scratchpad` and panels are pieces of its own scratch.
#pragma once

#include <cstdint>

#include "kernels/ops/cpu/gemm.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu {

// `memory` itself or its transpose.
struct Factor {
  Matrix memory;
  Layout layout = Layout::plain;
  std::int64_t rows() const { return layout == Layout::plain ? memory.rows : memory.cols; }
  std::int64_t cols() const { return layout == Layout::plain ? memory.cols : memory.rows; }
};

// Rows [row, row + rows) and columns [col, col + cols).
Matrix block(const Matrix& matrix, std::int64_t row, std::int64_t rows, std::int64_t col,
             std::int64_t cols);
Factor block(const Factor& factor, std::int64_t row, std::int64_t rows, std::int64_t col,
             std::int64_t cols);

// c = or += a · b + bias, on this thread. `bias` may be null; `scratchpad` as for Gemm::run().
void run_gemm(GemmCache& gemms, int worker, void* scratchpad, const Matrix& c, const Factor& a,
              const Factor& b, Into into, const void* bias = nullptr);

// The f32 matrix at `panel`, of panel_elements(rows, cols) elements. Its rows are whole cache lines
// and one more: strides that are powers of two would meet in the same cache sets.
Matrix panel_matrix(float* panel, std::int64_t rows, std::int64_t cols);
std::int64_t panel_elements(std::int64_t rows, std::int64_t cols);

// bf16 values as f32, in a panel; exact.
Matrix widen(Isa isa, const Matrix& from, float* panel);
Factor widen(Isa isa, const Factor& from, float* panel);

}  // namespace strata::ops::cpu

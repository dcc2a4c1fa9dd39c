// The row-wise parts of tiled attention, between its matmuls; compiled per instruction set with
// equal bits.
#pragma once

#include <cstdint>

#include "kernels/base/isa.h"
#include "kernels/ops/cpu/kernel_table.h"

namespace strata::ops::cpu {

// How probabilities and score gradients go into the next matmul.
enum class ScoreFormat : std::uint8_t {
  f32,
  bf16,
  bf16_in_f32,  // rounded to bf16, for a matmul in f32
};

// A block of q·kᵀ, (rows, cols) f32. Row r sees its first min(cols, visible + r) columns; visible
// is at least 1. Results replace f32 rows by rows of the format that begin at the same addresses.
struct ScoreTile {
  float* scores;
  std::int64_t stride;  // f32 elements
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t visible;
  float scale;  // of the scores, > 0
  ScoreFormat format;
};

struct AttentionKernels {
  // One step of the online softmax: scores become exp(scale·score - max'), 0 where not visible;
  // max (rows) becomes max' >= max, sum (rows) and out (rows, head_dim) dense are rescaled to it,
  // and the new terms are added to sum. Starts from max = -inf, sum = 0.
  void (*softmax)(const ScoreTile& tile, float* max, float* sum, float* out, std::int64_t head_dim);

  // scores become p = exp(scale·score - log_sum_exp), and dprobabilities (same stride) become
  // p·(dprobability - row_dot), both 0 where not visible.
  void (*softmax_backward)(const ScoreTile& tile, float* dprobabilities, const float* log_sum_exp,
                           const float* row_dots);

  // to (rows, cols) = scale·from (rows, cols) dense f32, row by row over `divisors` if there are
  // any.
  using Scale = void (*)(const Matrix& to, const float* from, float scale, const float* divisors);
  ByDtype<Scale> scale;  // by the dtype of to

  // dots (rows) = sums over columns of a·b, in 16 lanes.
  using RowDots = void (*)(float* dots, const Matrix& a, const Matrix& b);
  ByDtype<RowDots> row_dots;
};

const AttentionKernels& attention_kernels(Isa isa);

// What isa/attention_rows.cc defines.
namespace scalar {
extern const AttentionKernels attention_kernels;
}
namespace avx2 {
extern const AttentionKernels attention_kernels;
}
namespace avx512 {
extern const AttentionKernels attention_kernels;
}

}  // namespace strata::ops::cpu

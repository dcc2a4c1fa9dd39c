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

// A block of q·kᵀ, (rows, cols) f32. Row r sees columns before min(cols, visible + r), of these
// only the last `window` before visible + r if there is a window, and none before key
// document_starts[r] if there are documents; maybe none at all. Results replace f32 rows by rows
// of the format that begin at the same addresses.
struct ScoreTile {
  float* scores;
  std::int64_t stride;  // f32 elements
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t visible;                 // at least 1
  std::int64_t window;                  // 0: none
  std::int64_t first_key;               // of column 0
  const std::int32_t* document_starts;  // (rows), or null
  float scale;                          // of the scores, > 0
  ScoreFormat format;
};

struct AttentionKernels {
  // One step of the online softmax: scores become exp(scale·score - max'), 0 where not visible;
  // max (rows) becomes max' >= max, sum (rows) and out (rows, head_dim) dense are rescaled to it,
  // and the new terms are added to sum; all stay as they are where a row sees nothing. Starts from
  // max = -inf, sum = 0.
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

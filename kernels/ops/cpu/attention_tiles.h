// What the forward and the backward of attention share: a call's constants, which keys a tile of
// queries sees, views of one head, and rows of a head as operands of matmuls.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/ops/attention.h"
#include "kernels/ops/cpu/attention_kernels.h"
#include "kernels/ops/cpu/factor.h"
#include "kernels/ops/cpu/matmul_state.h"

namespace strata::ops::cpu {

class AttentionCall {
 public:
  // Annotates and checks the document starts.
  AttentionCall(CpuDevice& device, const AttentionShape& shape, const AttentionOptions& options,
                Dtype dtype);

  // (T, D) of one head of one sequence, in (B·T, heads·D); of a cache (P, D).
  Matrix head(const Matrix& matrix, std::int64_t sequence, std::int64_t head_index) const;
  // Where its T entries begin in (B, H, T).
  std::int64_t first_row(std::int64_t sequence, std::int64_t head_index) const {
    return (sequence * shape.heads + head_index) * shape.tokens;
  }

  // No query of [first, first + queries) sees a key before this one.
  std::int64_t first_visible_key(std::int64_t sequence, std::int64_t first_query,
                                 std::int64_t queries) const;
  ScoreTile score_tile(const Matrix& scores, std::int64_t sequence, std::int64_t first_query,
                       std::int64_t first_key) const;
  // The matrix that a kernel left in place of these scores.
  Matrix replaced(Matrix scores) const;

  MatmulState& state;
  const AttentionKernels& kernels;
  AttentionShape shape;
  float scale;                          // of the scores
  std::int64_t window;                  // 0: none
  std::int64_t past = 0;                // position of query 0
  const std::int32_t* document_starts;  // (B, T), or null
  Dtype arithmetic;
  ScoreFormat format;
};

// Rows of one head as an operand, widened into a panel where the arithmetic is f32 and the memory
// is bf16.
class OperandRows {
 public:
  OperandRows(const AttentionCall& call, ScratchFrame& scratch, std::int64_t rows_max)
      : call_(call), panel_(scratch.take<float>(panel_elements(rows_max, call.shape.head_dim))) {}

  // Holds until the next call.
  Matrix load(const Matrix& head, std::int64_t first, std::int64_t rows) const;

  static std::int64_t scratch_bytes_of(std::int64_t rows_max, std::int64_t head_dim) {
    return scratch_bytes<float>(panel_elements(rows_max, head_dim));
  }

 private:
  const AttentionCall& call_;
  float* panel_;
};

// Scratch of one worker, for T and D.
std::int64_t attention_forward_scratch_bytes(std::int64_t tokens, std::int64_t head_dim);
std::int64_t attention_backward_scratch_bytes(std::int64_t tokens, std::int64_t head_dim);

}  // namespace strata::ops::cpu

// What the forward and the backward of attention share: a call's constants, views of one head in
// packed matrices, and rows of a head as operands of matmuls.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/ops/attention.h"
#include "kernels/ops/cpu/attention_kernels.h"
#include "kernels/ops/cpu/factor.h"
#include "kernels/ops/cpu/matmul_state.h"

namespace strata::ops::cpu {

inline constexpr std::int64_t kQueryTile = 128;
inline constexpr std::int64_t kKeyTile = 256;
// So every query of a tile sees the first key of every key tile that it meets.
static_assert(kKeyTile % kQueryTile == 0);

enum class Section : std::uint8_t { q, k, v };  // of the columns of qkv

class AttentionCall {
 public:
  AttentionCall(CpuDevice& device, const AttentionShape& shape, Dtype dtype);

  // A head is counted over the batch: batch index * heads + head.
  std::int64_t heads() const { return shape.batch * shape.heads; }
  // (T, head_dim) of one head in (B, T, C).
  Matrix head(const Matrix& matrix, std::int64_t head_index) const;
  // The same in one section of (B, T, 3C).
  Matrix head(const Matrix& packed, std::int64_t head_index, Section section) const;

  ScoreTile score_tile(const Matrix& scores, std::int64_t first_query,
                       std::int64_t first_key) const;
  // The matrix that a kernel left in place of these scores.
  Matrix replaced(Matrix scores) const;

  std::int64_t query_tile() const { return std::min(kQueryTile, shape.tokens); }
  std::int64_t key_tile() const { return std::min(kKeyTile, shape.tokens); }

  MatmulState& state;
  const AttentionKernels& kernels;
  AttentionShape shape;
  float scale;  // of the scores
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

// Scratch of one worker, for T and head_dim.
std::int64_t attention_forward_scratch_bytes(std::int64_t tokens, std::int64_t head_dim);
std::int64_t attention_backward_scratch_bytes(std::int64_t tokens, std::int64_t head_dim);

}  // namespace strata::ops::cpu

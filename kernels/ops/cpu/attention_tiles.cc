#include "kernels/ops/cpu/attention_tiles.h"

#include <cmath>

#include "kernels/ops/cpu/attention.h"

namespace strata::ops::cpu {
namespace {

ScoreFormat format_of(Dtype memory, Dtype arithmetic) {
  if (memory == Dtype::f32) return ScoreFormat::f32;
  return arithmetic == Dtype::bf16 ? ScoreFormat::bf16 : ScoreFormat::bf16_in_f32;
}

}  // namespace

AttentionCall::AttentionCall(CpuDevice& device, const AttentionShape& of, Dtype dtype)
    : state(matmul_state(device)),
      kernels(attention_kernels(state.isa)),
      shape(of),
      scale(static_cast<float>(1 / std::sqrt(static_cast<double>(of.head_dim)))),
      arithmetic(state.arithmetic(dtype, state.default_arithmetic)),
      format(format_of(dtype, arithmetic)) {}

Matrix AttentionCall::head(const Matrix& matrix, std::int64_t head_index) const {
  return block(matrix, head_index / shape.heads * shape.tokens, shape.tokens,
               head_index % shape.heads * shape.head_dim, shape.head_dim);
}

Matrix AttentionCall::head(const Matrix& packed, std::int64_t head_index, Section section) const {
  const std::int64_t first_col = static_cast<std::int64_t>(section) * shape.channels();
  return head(block(packed, 0, packed.rows, first_col, shape.channels()), head_index);
}

ScoreTile AttentionCall::score_tile(const Matrix& scores, std::int64_t first_query,
                                    std::int64_t first_key) const {
  return {.scores = static_cast<float*>(scores.data),
          .stride = scores.stride,
          .rows = scores.rows,
          .cols = scores.cols,
          .visible = first_query - first_key + 1,
          .scale = scale,
          .format = format};
}

Matrix AttentionCall::replaced(Matrix scores) const {
  scores.stride *= bytes_of(scores.dtype) / bytes_of(arithmetic);
  scores.dtype = arithmetic;
  return scores;
}

Matrix OperandRows::load(const Matrix& head, std::int64_t first, std::int64_t rows) const {
  const Matrix memory = block(head, first, rows, 0, head.cols);
  return memory.dtype == call_.arithmetic ? memory : widen(call_.state.isa, memory, panel_);
}

const AttentionKernels& attention_kernels(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return avx512::attention_kernels;
    case Isa::avx2:
      return avx2::attention_kernels;
    case Isa::scalar:
      break;
  }
  return scalar::attention_kernels;
}

std::int64_t attention_scratch_bytes(const CpuOpsLimits& limits) {
  return std::max(attention_forward_scratch_bytes(limits.tokens_max, limits.head_dim),
                  attention_backward_scratch_bytes(limits.tokens_max, limits.head_dim));
}

}  // namespace strata::ops::cpu

#include "kernels/ops/cpu/attention_tiles.h"

#include <cmath>

#include "kernels/base/error.h"
#include "kernels/ops/cpu/attention.h"
#include "kernels/ops/cpu/operands.h"

namespace strata::ops::cpu {
namespace {

ScoreFormat format_of(Dtype memory, Dtype arithmetic) {
  if (memory == Dtype::f32) return ScoreFormat::f32;
  return arithmetic == Dtype::bf16 ? ScoreFormat::bf16 : ScoreFormat::bf16_in_f32;
}

// Every query must see itself, or its softmax is over nothing, and no key that the one before it
// did not: kernels look at the first of a tile.
void check_document_starts(const AttentionShape& shape, const std::int32_t* starts) {
  for (std::int64_t row = 0; row < shape.rows(); ++row) {
    const std::int64_t token = row % shape.tokens;
    const std::int32_t least = token == 0 ? 0 : starts[row - 1];
    STRATA_CHECK(least <= starts[row] && starts[row] <= token,
                 "attention: token {} of a document that starts at {}, after one of {}", token,
                 starts[row], least);
  }
}

}  // namespace

AttentionCall::AttentionCall(CpuDevice& device, const AttentionShape& of,
                             const AttentionOptions& options, Dtype dtype)
    : state(matmul_state(device)),
      kernels(attention_kernels(state.isa)),
      shape(of),
      scale(options.scale.value_or(
          static_cast<float>(1 / std::sqrt(static_cast<double>(of.head_dim))))),
      window(options.window),
      document_starts(options.document_starts),
      arithmetic(state.arithmetic(dtype, state.default_arithmetic)),
      format(format_of(dtype, arithmetic)) {
  if (document_starts == nullptr) return;
  annotate_read(document_starts, shape.rows() * kIdBytes);
  check_document_starts(shape, document_starts);
}

Matrix AttentionCall::head(const Matrix& matrix, std::int64_t sequence,
                           std::int64_t head_index) const {
  const std::int64_t rows = matrix.rows / shape.batch;
  return block(matrix, sequence * rows, rows, head_index * shape.head_dim, shape.head_dim);
}

std::int64_t AttentionCall::first_visible_key(std::int64_t sequence, std::int64_t first_query,
                                              std::int64_t queries) const {
  const std::int64_t by_window =
      window == 0 ? 0 : std::max<std::int64_t>(0, past + first_query - window + 1);
  if (document_starts == nullptr) return by_window;
  const std::int32_t* starts = document_starts + sequence * shape.tokens + first_query;
  return std::max<std::int64_t>(by_window, *std::min_element(starts, starts + queries));
}

ScoreTile AttentionCall::score_tile(const Matrix& scores, std::int64_t sequence,
                                    std::int64_t first_query, std::int64_t first_key) const {
  return {.scores = static_cast<float*>(scores.data),
          .stride = scores.stride,
          .rows = scores.rows,
          .cols = scores.cols,
          .visible = past + first_query - first_key + 1,
          .window = window,
          .first_key = first_key,
          .document_starts = document_starts == nullptr
                                 ? nullptr
                                 : document_starts + sequence * shape.tokens + first_query,
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

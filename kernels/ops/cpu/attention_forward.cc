#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops/cpu/attention.h"
#include "kernels/ops/cpu/attention_tiles.h"
#include "kernels/ops/cpu/operands.h"

namespace strata::ops::cpu {
namespace {

// Attention of one tile of queries of one head, in one worker's scratch.
class ForwardTile {
 public:
  ForwardTile(const AttentionCall& call, int worker, ScratchFrame scratch)
      : call_(call),
        worker_(worker),
        scratchpad_(scratch.take<std::byte>(kGemmScratchpadBytes)),
        scores_(scratch.take<float>(panel_elements(call.query_tile(), call.key_tile()))),
        weighted_(scratch.take<float>(call.query_tile() * call.shape.head_dim)),
        max_(scratch.take<float>(call.query_tile())),
        sum_(scratch.take<float>(call.query_tile())),
        q_(call, scratch, call.query_tile()),
        k_(call, scratch, call.key_tile()),
        v_(call, scratch, call.key_tile()) {}

  void run(const Matrix& out, float* log_sum_exp, const Matrix& qkv, std::int64_t head,
           std::int64_t first_query) const {
    const std::int64_t queries = std::min(kQueryTile, call_.shape.tokens - first_query);
    const std::int64_t keys_end = first_query + queries;
    const Matrix q = q_.load(call_.head(qkv, head, Section::q), first_query, queries);
    const Matrix weighted = Matrix::dense(weighted_, Dtype::f32, queries, call_.shape.head_dim);
    std::fill_n(weighted_, queries * call_.shape.head_dim, 0.0f);
    std::fill_n(max_, queries, -std::numeric_limits<float>::infinity());
    std::fill_n(sum_, queries, 0.0f);

    for (std::int64_t first_key = 0; first_key < keys_end; first_key += kKeyTile) {
      const std::int64_t keys = std::min(kKeyTile, keys_end - first_key);
      const Matrix k = k_.load(call_.head(qkv, head, Section::k), first_key, keys);
      const Matrix v = v_.load(call_.head(qkv, head, Section::v), first_key, keys);
      const Matrix scores = panel_matrix(scores_, queries, keys);
      multiply(scores, {q}, {k, Layout::transposed}, Into::overwrite);
      call_.kernels.softmax(call_.score_tile(scores, first_query, first_key), max_, sum_, weighted_,
                            weighted.cols);
      multiply(weighted, {call_.replaced(scores)}, {v}, Into::add);
    }

    call_.kernels.scale[out.dtype](
        block(call_.head(out, head), first_query, queries, 0, weighted.cols), weighted_, 1.0f,
        sum_);
    float* log_sums = log_sum_exp + head * call_.shape.tokens + first_query;
    for (std::int64_t i = 0; i < queries; ++i) {
      log_sums[i] = static_cast<float>(max_[i] + std::log(static_cast<double>(sum_[i])));
    }
  }

 private:
  void multiply(const Matrix& c, const Factor& a, const Factor& b, Into into) const {
    run_gemm(call_.state.gemms, worker_, scratchpad_, c, a, b, into);
  }

  const AttentionCall& call_;
  int worker_;
  std::byte* scratchpad_;
  float* scores_;    // (queries, keys), then the probabilities
  float* weighted_;  // (queries, head_dim): sums of exp(score - max) · v
  float* max_;       // (queries)
  float* sum_;       // (queries): sums of exp(score - max)
  OperandRows q_;
  OperandRows k_;
  OperandRows v_;
};

}  // namespace

std::int64_t attention_forward_scratch_bytes(std::int64_t tokens, std::int64_t head_dim) {
  const std::int64_t queries = std::min(kQueryTile, tokens);
  const std::int64_t keys = std::min(kKeyTile, tokens);
  return scratch_bytes<std::byte>(kGemmScratchpadBytes) +
         scratch_bytes<float>(panel_elements(queries, keys)) +
         scratch_bytes<float>(queries * head_dim) + 2 * scratch_bytes<float>(queries) +
         OperandRows::scratch_bytes_of(queries, head_dim) +
         2 * OperandRows::scratch_bytes_of(keys, head_dim);
}

void attention_forward(CpuDevice& device, const AttentionShape& shape, const Matrix& out,
                       float* log_sum_exp, const Matrix& qkv) {
  annotate_read(qkv);
  annotate_write(out);
  annotate_write(log_sum_exp, shape.heads * shape.rows() * kF32Bytes);

  const AttentionCall call(device, shape, qkv.dtype);
  const std::int64_t tiles_per_head = ceil_div(shape.tokens, kQueryTile);
  device.workers().parallel_for(call.heads() * tiles_per_head, [&](std::int64_t tile, int worker) {
    const std::int64_t first_query = tile % tiles_per_head * kQueryTile;
    ForwardTile(call, worker, call.state.attention_scratch.frame(worker))
        .run(out, log_sum_exp, qkv, tile / tiles_per_head, first_query);
  });
}

}  // namespace strata::ops::cpu

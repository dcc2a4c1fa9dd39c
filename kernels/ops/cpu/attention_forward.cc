#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/ops/cpu/attention.h"
#include "kernels/ops/cpu/attention_tiles.h"
#include "kernels/ops/cpu/operands.h"

namespace strata::ops::cpu {
namespace {

constexpr std::int64_t kQueryTile = 128;
constexpr std::int64_t kKeyTile = 256;
// A cache grows token by token; its last key tile grows by so many, so that few matmuls are
// compiled.
constexpr std::int64_t kCachedKeysStep = 64;

std::int64_t query_tile(std::int64_t tokens) { return std::min(kQueryTile, tokens); }
std::int64_t key_tile(std::int64_t tokens) { return std::min(kKeyTile, tokens); }

// Attention of one tile of queries of one head, in one worker's scratch.
class ForwardTile {
 public:
  // `all_keys`: rows of k of one sequence.
  ForwardTile(const AttentionCall& call, int worker, std::int64_t all_keys)
      : ForwardTile(call, worker, all_keys, call.state.attention_scratch.frame(worker)) {}

  // log_sum_exp may be null.
  void run(const Matrix& out, float* log_sum_exp, const Qkv& qkv, std::int64_t sequence,
           std::int64_t head, std::int64_t first_query) const {
    const std::int64_t cols = call_.shape.head_dim;
    const std::int64_t queries = std::min(kQueryTile, call_.shape.tokens - first_query);
    const std::int64_t kv_head = head / call_.shape.heads_per_kv_head();
    const Matrix all_k = call_.head(qkv.k, sequence, kv_head);
    const Matrix all_v = call_.head(qkv.v, sequence, kv_head);
    const Matrix q = q_.load(call_.head(qkv.q, sequence, head), first_query, queries);
    const Matrix weighted = Matrix::dense(weighted_, Dtype::f32, queries, cols);
    std::fill_n(weighted_, queries * cols, 0.0f);
    std::fill_n(max_, queries, -std::numeric_limits<float>::infinity());
    std::fill_n(sum_, queries, 0.0f);

    const std::int64_t seen_end = call_.past + first_query + queries;
    const std::int64_t keys_end = qkv.k.rows == qkv.q.rows
                                      ? seen_end
                                      : std::min(round_up(seen_end, kCachedKeysStep), qkv.k.rows);
    const std::int64_t first_visible = call_.first_visible_key(sequence, first_query, queries);
    for (std::int64_t first_key = first_visible / kKeyTile * kKeyTile; first_key < keys_end;
         first_key += kKeyTile) {
      const std::int64_t keys = std::min(kKeyTile, keys_end - first_key);
      const Matrix k = k_.load(all_k, first_key, keys);
      const Matrix v = v_.load(all_v, first_key, keys);
      const Matrix scores = panel_matrix(scores_, queries, keys);
      multiply(scores, {q}, {k, Layout::transposed}, Into::overwrite);
      call_.kernels.softmax(call_.score_tile(scores, sequence, first_query, first_key), max_, sum_,
                            weighted_, cols);
      multiply(weighted, {call_.replaced(scores)}, {v}, Into::add);
    }

    call_.kernels.scale[out.dtype](
        block(call_.head(out, sequence, head), first_query, queries, 0, cols), weighted_, 1.0f,
        sum_);
    if (log_sum_exp == nullptr) return;
    float* log_sums = log_sum_exp + call_.first_row(sequence, head) + first_query;
    for (std::int64_t i = 0; i < queries; ++i) {
      log_sums[i] = static_cast<float>(max_[i] + std::log(static_cast<double>(sum_[i])));
    }
  }

 private:
  ForwardTile(const AttentionCall& call, int worker, std::int64_t all_keys, ScratchFrame scratch)
      : call_(call),
        worker_(worker),
        scratchpad_(scratch.take<std::byte>(kGemmScratchpadBytes)),
        scores_(
            scratch.take<float>(panel_elements(query_tile(call.shape.tokens), key_tile(all_keys)))),
        weighted_(scratch.take<float>(query_tile(call.shape.tokens) * call.shape.head_dim)),
        max_(scratch.take<float>(query_tile(call.shape.tokens))),
        sum_(scratch.take<float>(query_tile(call.shape.tokens))),
        q_(call, scratch, query_tile(call.shape.tokens)),
        k_(call, scratch, key_tile(all_keys)),
        v_(call, scratch, key_tile(all_keys)) {}

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

void run_tiles(CpuDevice& device, const AttentionCall& call, const Matrix& out, float* log_sum_exp,
               const Qkv& qkv) {
  const std::int64_t heads = call.shape.heads;
  const std::int64_t tiles = ceil_div(call.shape.tokens, kQueryTile);
  device.workers().parallel_for(
      call.shape.batch * heads * tiles, [&](std::int64_t index, int worker) {
        const std::int64_t head = index / tiles;
        // Late queries see most keys: they go first, and the short ones fill the end.
        const std::int64_t tile = tiles - 1 - index % tiles;
        ForwardTile(call, worker, qkv.k.rows / call.shape.batch)
            .run(out, log_sum_exp, qkv, head / heads, head % heads, tile * kQueryTile);
      });
}

// rows (T, cols) as rows [first, first + T) of `to`.
void put_rows(const Matrix& to, std::int64_t first, const Matrix& rows) {
  const auto bytes = static_cast<std::size_t>(rows.cols * bytes_of(rows.dtype));
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    std::memcpy(address_of(to, first + row), address_of(rows, row), bytes);
  }
}

}  // namespace

std::int64_t attention_forward_scratch_bytes(std::int64_t tokens, std::int64_t head_dim) {
  const std::int64_t queries = query_tile(tokens);
  const std::int64_t keys = key_tile(tokens);
  return scratch_bytes<std::byte>(kGemmScratchpadBytes) +
         scratch_bytes<float>(panel_elements(queries, keys)) +
         scratch_bytes<float>(queries * head_dim) + 2 * scratch_bytes<float>(queries) +
         OperandRows::scratch_bytes_of(queries, head_dim) +
         2 * OperandRows::scratch_bytes_of(keys, head_dim);
}

void attention_forward(CpuDevice& device, const AttentionShape& shape,
                       const AttentionOptions& options, const Matrix& out, float* log_sum_exp,
                       const Qkv& qkv) {
  annotate_read(qkv.q);
  annotate_read(qkv.k);
  annotate_read(qkv.v);
  annotate_write(out);
  annotate_write(log_sum_exp, shape.heads * shape.rows() * kF32Bytes);

  run_tiles(device, AttentionCall(device, shape, options, qkv.q.dtype), out, log_sum_exp, qkv);
}

void attention_with_cache(CpuDevice& device, const AttentionShape& shape,
                          const AttentionOptions& options, const Matrix& out, const Qkv& qkv,
                          const KvCache& cache, std::int64_t past) {
  annotate_read(qkv.q);
  annotate_read(qkv.k);
  annotate_read(qkv.v);
  annotate_write(out);
  for (const Matrix& kept : {cache.k, cache.v}) {
    annotate_read(kept);
    annotate_write(block(kept, past, shape.tokens, 0, kept.cols));
  }

  put_rows(cache.k, past, qkv.k);
  put_rows(cache.v, past, qkv.v);
  AttentionCall call(device, shape, options, qkv.q.dtype);
  call.past = past;
  run_tiles(device, call, out, nullptr, {qkv.q, cache.k, cache.v});
}

}  // namespace strata::ops::cpu

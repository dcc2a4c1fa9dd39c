// With P the probabilities, recomputed tile by tile,
//   dV = Pᵀ·dO,  dS = P ∘ (dO·Vᵀ - rowsum(dO ∘ O)),  dQ = scale·dS·K,  dK = scale·dSᵀ·Q
// (Dao et al. 2022, Algorithm 4). A tile pairs `kTile` queries with as many keys. Whatever the
// schedule, the sums of a tile of queries take keys from late to early, those of a tile of keys
// take queries from early to late, and dK and dV are summed per query head, then over the heads
// that share them: the bits depend on the shape alone.
#include <algorithm>
#include <mutex>

#include "kernels/base/error.h"
#include "kernels/ops/cpu/attention.h"
#include "kernels/ops/cpu/attention_tiles.h"
#include "kernels/ops/cpu/kernel_table.h"
#include "kernels/ops/cpu/operands.h"

namespace strata::ops::cpu {
namespace {

constexpr std::int64_t kTile = 128;
// Pairs of tiles in flight for each worker, on average over the diagonals.
constexpr std::int64_t kPairsPerWorker = 16;
// With that many KV heads for each worker, a worker takes whole ones.
constexpr std::int64_t kKvHeadsPerWorker = 8;

std::int64_t tile_rows(std::int64_t tokens) { return std::min(kTile, tokens); }

// dQ, dK, dV of the query heads that share a KV head: f32, (heads, T, D) each.
std::int64_t sums_elements(std::int64_t heads, std::int64_t tokens, std::int64_t head_dim) {
  return 3 * heads * tokens * head_dim;
}

class Sums {
 public:
  Sums(const AttentionShape& shape, float* memory) : shape_(shape), memory_(memory) {}
  Matrix dq(std::int64_t head, std::int64_t first, std::int64_t rows) const {
    return rows_of(0, head, first, rows);
  }
  Matrix dk(std::int64_t head, std::int64_t first, std::int64_t rows) const {
    return rows_of(1, head, first, rows);
  }
  Matrix dv(std::int64_t head, std::int64_t first, std::int64_t rows) const {
    return rows_of(2, head, first, rows);
  }

 private:
  Matrix rows_of(std::int64_t part, std::int64_t head, std::int64_t first,
                 std::int64_t rows) const {
    const std::int64_t row = (part * shape_.heads_per_kv_head() + head) * shape_.tokens + first;
    return Matrix::dense(memory_ + row * shape_.head_dim, Dtype::f32, rows, shape_.head_dim);
  }

  const AttentionShape& shape_;
  float* memory_;
};

// A query head: of a KV head, counted over the batch, the `member`-th that shares it.
struct QueryHead {
  std::int64_t kv_head;
  std::int64_t member;
};

class BackwardCall {
 public:
  BackwardCall(CpuDevice& device, const AttentionShape& shape, const AttentionOptions& options,
               const AttentionBackward& of)
      : call(device, shape, options, of.qkv.q.dtype), operands(of) {}

  std::int64_t sequence(std::int64_t kv_head) const { return kv_head / call.shape.kv_heads; }
  // (T, D), by whose head it is.
  Matrix of_query_head(const Matrix& matrix, QueryHead head) const {
    return call.head(matrix, sequence(head.kv_head), in_sequence(head));
  }
  Matrix of_kv_head(const Matrix& matrix, std::int64_t kv_head) const {
    return call.head(matrix, sequence(kv_head), kv_head % call.shape.kv_heads);
  }
  std::int64_t first_row(QueryHead head) const {
    return call.first_row(sequence(head.kv_head), in_sequence(head));
  }
  std::int64_t tiles() const { return ceil_div(call.shape.tokens, kTile); }
  // Of a tile of queries, how many tiles of keys back from its own any may see.
  std::int64_t diagonals() const {
    return call.window == 0 ? tiles() : std::min(tiles(), ceil_div(call.window - 1, kTile) + 1);
  }
  std::int64_t rows_of_tile(std::int64_t tile) const {
    return std::min(kTile, call.shape.tokens - tile * kTile);
  }

  const AttentionCall call;
  const AttentionBackward operands;

 private:
  std::int64_t in_sequence(QueryHead head) const {
    return head.kv_head % call.shape.kv_heads * call.shape.heads_per_kv_head() + head.member;
  }
};

// What a pair of tiles adds to the sums, in one worker's scratch.
class BackwardPair {
 public:
  BackwardPair(const BackwardCall& backward, int worker)
      : BackwardPair(backward, worker, backward.call.state.attention_scratch.frame(worker)) {}

  // The pair on the diagonal, in which every query sees itself, begins the sums and makes the
  // queries' row dots.
  void run(const Sums& sums, QueryHead head, std::int64_t query_tile, std::int64_t key_tile) const {
    const std::int64_t first_query = query_tile * kTile;
    const std::int64_t first_key = key_tile * kTile;
    const std::int64_t queries = backward_.rows_of_tile(query_tile);
    const std::int64_t keys = backward_.rows_of_tile(key_tile);
    const std::int64_t sequence = backward_.sequence(head.kv_head);
    if (call_.first_visible_key(sequence, first_query, queries) >= first_key + keys) return;

    const AttentionBackward& operands = backward_.operands;
    const std::int64_t first_row = backward_.first_row(head) + first_query;
    const bool diagonal = query_tile == key_tile;
    if (diagonal) make_row_dots(head, first_query, queries);
    const Into into = diagonal ? Into::overwrite : Into::add;

    const Matrix q = q_.load(backward_.of_query_head(operands.qkv.q, head), first_query, queries);
    const Matrix dout =
        dout_.load(backward_.of_query_head(operands.dout, head), first_query, queries);
    const Matrix k = k_.load(backward_.of_kv_head(operands.qkv.k, head.kv_head), first_key, keys);
    const Matrix v = v_.load(backward_.of_kv_head(operands.qkv.v, head.kv_head), first_key, keys);
    const Matrix scores = panel_matrix(scores_, queries, keys);
    const Matrix dscores = panel_matrix(dscores_, queries, keys);
    multiply(scores, {q}, {k, Layout::transposed}, Into::overwrite);
    multiply(dscores, {dout}, {v, Layout::transposed}, Into::overwrite);
    call_.kernels.softmax_backward(call_.score_tile(scores, sequence, first_query, first_key),
                                   dscores_, operands.log_sum_exp + first_row,
                                   operands.row_dots + first_row);
    const Matrix p = call_.replaced(scores);
    const Matrix ds = call_.replaced(dscores);
    multiply(sums.dv(head.member, first_key, keys), {p, Layout::transposed}, {dout}, into);
    multiply(sums.dk(head.member, first_key, keys), {ds, Layout::transposed}, {q}, into);
    multiply(sums.dq(head.member, first_query, queries), {ds}, {k}, into);
  }

 private:
  BackwardPair(const BackwardCall& backward, int worker, ScratchFrame scratch)
      : backward_(backward),
        call_(backward.call),
        worker_(worker),
        scratchpad_(scratch.take<std::byte>(kGemmScratchpadBytes)),
        scores_(scratch.take<float>(square_elements(call_.shape.tokens))),
        dscores_(scratch.take<float>(square_elements(call_.shape.tokens))),
        q_(call_, scratch, tile_rows(call_.shape.tokens)),
        dout_(call_, scratch, tile_rows(call_.shape.tokens)),
        k_(call_, scratch, tile_rows(call_.shape.tokens)),
        v_(call_, scratch, tile_rows(call_.shape.tokens)) {}

  static std::int64_t square_elements(std::int64_t tokens) {
    return panel_elements(tile_rows(tokens), tile_rows(tokens));
  }
  friend std::int64_t cpu::attention_backward_scratch_bytes(std::int64_t tokens,
                                                            std::int64_t head_dim);

  void make_row_dots(QueryHead head, std::int64_t first, std::int64_t rows) const {
    const auto tile = [&](const Matrix& matrix) {
      return block(backward_.of_query_head(matrix, head), first, rows, 0, call_.shape.head_dim);
    };
    const AttentionBackward& operands = backward_.operands;
    call_.kernels.row_dots[operands.out.dtype](
        operands.row_dots + backward_.first_row(head) + first, tile(operands.dout),
        tile(operands.out));
  }
  void multiply(const Matrix& c, const Factor& a, const Factor& b, Into into) const {
    run_gemm(call_.state.gemms, worker_, scratchpad_, c, a, b, into);
  }

  const BackwardCall& backward_;
  const AttentionCall& call_;
  int worker_;
  std::byte* scratchpad_;
  float* scores_;   // (queries, keys), then P
  float* dscores_;  // (queries, keys): dO·Vᵀ, then dS
  OperandRows q_;
  OperandRows dout_;
  OperandRows k_;
  OperandRows v_;
};

// Gradients of the tokens of one tile from the finished sums.
void finish(const BackwardCall& backward, const Sums& sums, std::int64_t kv_head,
            std::int64_t tile) {
  const AttentionCall& call = backward.call;
  const Qkv& gradients = backward.operands.gradients;
  const std::int64_t first = tile * kTile;
  const std::int64_t rows = backward.rows_of_tile(tile);
  const auto put = [&](const Matrix& head, const Matrix& sum, float scale) {
    call.kernels.scale[head.dtype](block(head, first, rows, 0, head.cols),
                                   static_cast<const float*>(sum.data), scale, nullptr);
  };
  const Matrix dk = sums.dk(0, first, rows);
  const Matrix dv = sums.dv(0, first, rows);
  const auto add = kernel_table(call.state.isa).elementwise.accumulate.f32;
  for (std::int64_t member = 0; member < call.shape.heads_per_kv_head(); ++member) {
    put(backward.of_query_head(gradients.q, {kv_head, member}), sums.dq(member, first, rows),
        call.scale);
    if (member == 0) continue;
    add(static_cast<float*>(dk.data), sums.dk(member, first, rows).data, rows * dk.cols);
    add(static_cast<float*>(dv.data), sums.dv(member, first, rows).data, rows * dv.cols);
  }
  put(backward.of_kv_head(gradients.k, kv_head), dk, call.scale);
  put(backward.of_kv_head(gradients.v, kv_head), dv, 1.0f);
}

// One KV head on one worker.
void run_kv_head(const BackwardCall& backward, const Sums& sums, std::int64_t kv_head, int worker) {
  const BackwardPair pair(backward, worker);
  for (std::int64_t member = 0; member < backward.call.shape.heads_per_kv_head(); ++member) {
    for (std::int64_t key = backward.tiles() - 1; key >= 0; --key) {
      const std::int64_t queries_end = std::min(backward.tiles(), key + backward.diagonals());
      for (std::int64_t query = key; query < queries_end; ++query) {
        pair.run(sums, {kv_head, member}, query, key);
      }
    }
  }
  for (std::int64_t tile = 0; tile < backward.tiles(); ++tile) {
    finish(backward, sums, kv_head, tile);
  }
}

// KV heads [first, first + count) on all workers, one diagonal of pairs after the other: no two
// pairs of a diagonal add to the same sums.
template <typename SumsOf>
void run_diagonals(WorkerSet& workers, const BackwardCall& backward, const SumsOf& sums_of,
                   std::int64_t first, std::int64_t count) {
  const std::int64_t members = backward.call.shape.heads_per_kv_head();
  for (std::int64_t diagonal = 0; diagonal < backward.diagonals(); ++diagonal) {
    const std::int64_t pairs = backward.tiles() - diagonal;
    workers.parallel_for(count * members * pairs, [&](std::int64_t index, int worker) {
      const std::int64_t key = index % pairs;
      const std::int64_t head = index / pairs;
      const std::int64_t slot = head / members;
      BackwardPair(backward, worker)
          .run(sums_of(slot), {first + slot, head % members}, key + diagonal, key);
    });
  }
  workers.parallel_for(count * backward.tiles(), [&](std::int64_t index, int /*worker*/) {
    const std::int64_t slot = index / backward.tiles();
    finish(backward, sums_of(slot), first + slot, index % backward.tiles());
  });
}

void annotate(const AttentionShape& shape, const AttentionBackward& operands) {
  const std::int64_t row_bytes = shape.heads * shape.rows() * kF32Bytes;
  const Qkv& qkv = operands.qkv;
  for (const Matrix* read : {&qkv.q, &qkv.k, &qkv.v, &operands.out, &operands.dout}) {
    annotate_read(*read);
  }
  const Qkv& gradients = operands.gradients;
  for (const Matrix* written : {&gradients.q, &gradients.k, &gradients.v}) annotate_write(*written);
  annotate_read(operands.log_sum_exp, row_bytes);
  annotate_write(operands.row_dots, row_bytes);
}

}  // namespace

std::int64_t attention_backward_scratch_bytes(std::int64_t tokens, std::int64_t head_dim) {
  return scratch_bytes<std::byte>(kGemmScratchpadBytes) +
         2 * scratch_bytes<float>(BackwardPair::square_elements(tokens)) +
         4 * OperandRows::scratch_bytes_of(tile_rows(tokens), head_dim);
}

std::int64_t attention_sums_bytes(const CpuOpsLimits& limits, int worker_slots) {
  const std::int64_t heads = limits.heads_per_kv_head;
  const std::int64_t tiles = ceil_div(limits.tokens_max, kTile);
  const std::int64_t pairs_per_kv_head = heads * (tiles + 1);  // twice the mean of a diagonal
  const std::int64_t kv_heads = ceil_div(2 * kPairsPerWorker * worker_slots, pairs_per_kv_head);
  return kv_heads * sums_elements(heads, limits.tokens_max, limits.head_dim) * kF32Bytes;
}

void attention_backward(CpuDevice& device, const AttentionShape& shape,
                        const AttentionOptions& options, const AttentionBackward& operands) {
  annotate(shape, operands);
  const BackwardCall backward(device, shape, options, operands);
  MatmulState& state = backward.call.state;
  WorkerSet& workers = device.workers();
  const std::lock_guard turn(state.attention_sums_turn);

  const std::int64_t elements =
      sums_elements(shape.heads_per_kv_head(), shape.tokens, shape.head_dim);
  const std::int64_t slots = state.attention_sums.bytes() / (elements * kF32Bytes);
  STRATA_CHECK(slots > 0, "attention_backward: larger than the CpuOpsLimits it was attached with");
  auto* const memory = reinterpret_cast<float*>(state.attention_sums.data());
  const auto sums_of = [&](std::int64_t slot) { return Sums(shape, memory + slot * elements); };

  const std::int64_t kv_heads = shape.batch * shape.kv_heads;
  if (slots >= workers.worker_slots() && kv_heads >= kKvHeadsPerWorker * workers.threads()) {
    workers.parallel_for(kv_heads, [&](std::int64_t kv_head, int worker) {
      run_kv_head(backward, sums_of(worker), kv_head, worker);
    });
    return;
  }
  for (std::int64_t first = 0; first < kv_heads; first += slots) {
    run_diagonals(workers, backward, sums_of, first, std::min(slots, kv_heads - first));
  }
}

}  // namespace strata::ops::cpu

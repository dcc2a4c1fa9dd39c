// With P the probabilities, recomputed tile by tile,
//   dV = Pᵀ·dO,  dS = P ∘ (dO·Vᵀ - rowsum(dO ∘ O)),  dQ = scale·dS·K,  dK = scale·dSᵀ·Q
// (Dao et al. 2022, Algorithm 4), in two kernels: dQ by blocks of queries, which takes keys from
// early to late, and dK and dV by blocks of keys, which takes the query heads that share them in
// order, and of each the queries from early to late.
#include "kernels/device/cuda/cuda_error.h"
#include "kernels/ops/cuda/attention_tiles.h"

namespace strata::ops::cuda {
namespace {

template <typename T>
struct BackwardOperands {
  HeadRows<T> dq;
  HeadRows<T> dk;
  HeadRows<T> dv;
  HeadRows<const T> q;
  HeadRows<const T> k;
  HeadRows<const T> v;
  HeadRows<const T> out;
  HeadRows<const T> dout;
  const float* log_sum_exp;  // (B, H, T)
  float* row_dots;           // (B, H, T)
};

// Of a warp's 16 queries, rowsum(dO ∘ O): columns by lane, then the lanes in pairs.
template <typename T>
__device__ inline void make_row_dots(float (&dots)[2], float* row_dots,
                                     const HeadRows<const T>& dout, const HeadRows<const T>& out,
                                     int first, const AttentionCall& call) {
#pragma unroll 1
  for (int row = 0; row < kFragment && first + row < call.tokens; ++row) {
    float dot = 0;
    for (int c = lane_index(); c < call.head_dim; c += kWarpThreads) {
      dot = fma_rn(widen(load(dout.data + (first + row) * dout.stride + c)),
                   widen(load(out.data + (first + row) * out.stride + c)), dot);
    }
    for (int lanes = kWarpThreads / 2; lanes > 0; lanes /= 2) dot += shuffle_xor(dot, lanes);
    for (int r = 0; r < 2; ++r) {
      if (SumFragment::row(2 * r) == row) dots[r] = dot;
    }
    if (lane_index() == 0) store(row_dots + first + row, dot);
  }
}

// What one query needs of its softmax.
struct QueryRow {
  float log_sum;  // in powers of 2
  float dot;
  int first_visible;
};
__device__ inline QueryRow query_row(const AttentionCall& call, std::int64_t sequence, int query,
                                     const float* log_sums, const float* row_dots) {
  if (query >= call.tokens) return {0, 0, INT_MAX};
  return {load(log_sums + query) * kLog2E, load(row_dots + query),
          first_visible_key(call, sequence, query)};
}

// A score becomes its probability, and the probability's gradient the score's.
__device__ inline void softmax_backward(float& score, float& gradient, const QueryRow& query,
                                        float scale, bool visible) {
  const float p = visible ? exp2f(fma_rn(score, scale, -query.log_sum)) : 0.0f;
  score = p;
  gradient = visible ? p * (gradient - query.dot) : 0.0f;
}

// One block: Tiles::kOwn queries of one head of one sequence; also makes their row dots.
// Floor: 6·D flops for each visible pair of query and key, against the peak of tensor cores.
template <typename T, int kDim>
__global__ void __launch_bounds__(Tiles<T, kDim>::kThreads)
    queries_kernel(AttentionCall call, BackwardOperands<T> operands) {
  using Size = Tiles<T, kDim>;
  SharedMemory memory;
  const typename Size::Tile q(memory, Size::kOwn);
  const typename Size::Tile dout(memory, Size::kOwn);
  const typename Size::Tile k(memory, Size::kOther);
  const typename Size::Tile v(memory, Size::kOther);

  const auto block = query_block<Size::kOwn>(call, operands.q, operands.k, operands.v);
  const auto douts = operands.dout.head(call, block.row(call), block.head);
  load_tile(q, Size::kOwn, block.queries, block.first_query, call.tokens, call.head_dim);
  load_tile(dout, Size::kOwn, douts, block.first_query, call.tokens, call.head_dim);

  const int warp_row = warp_index() * kFragment;
  const int warp_query = block.first_query + warp_row;
  QueryRow rows[2];
  float dots[2] = {};
  make_row_dots(dots, operands.row_dots + block.statistics(call), douts,
                operands.out.head(call, block.row(call), block.head), warp_query, call);
  for (int r = 0; r < 2; ++r) {
    const int query = warp_query + SumFragment::row(2 * r);
    if (query >= call.tokens) {
      rows[r] = {0, 0, INT_MAX};
    } else {
      rows[r] = {load(operands.log_sum_exp + block.statistics(call) + query) * kLog2E, dots[r],
                 first_visible_key(call, block.sequence, query)};
    }
  }

  const float scale = call.scale * kLog2E;
  WarpSums<kDim> dq;
  const int first_visible = first_visible_key(call, block.sequence, block.first_query);
  const int keys_end = std::min(call.tokens, block.first_query + Size::kOwn);
  for (int key = first_visible / Size::kOther * Size::kOther; key < keys_end; key += Size::kOther) {
    sync_threads();
    load_tile(k, Size::kOther, block.keys, key, keys_end, call.head_dim);
    load_tile(v, Size::kOther, block.values, key, keys_end, call.head_dim);
    async_wait();
    sync_threads();
    if (warp_query >= call.tokens || key >= warp_query + kFragment) continue;
    WarpSums<Size::kOther> scores;
    WarpSums<Size::kOther> gradients;
    multiply_by_rows(scores, q, warp_row, k, call.head_dim);
    multiply_by_rows(gradients, dout, warp_row, v, call.head_dim);
    const bool no_edge = all_visible(call, warp_query, kFragment, key, Size::kOther);
#pragma unroll
    for (int n = 0; n < WarpSums<Size::kOther>::kFragments; ++n) {
#pragma unroll
      for (int i = 0; i < SumFragment::kEntries; ++i) {
        const QueryRow& query = rows[i / 2 % 2];
        const int column = key + n * kFragment + SumFragment::column(i);
        const bool visible = no_edge || (query.first_visible <= column &&
                                         column <= warp_query + SumFragment::row(i));
        softmax_backward(scores.fragments[n].at[i], gradients.fragments[n].at[i], query, scale,
                         visible);
      }
    }
    multiply_by_columns(dq, gradients, k, call.head_dim);
  }
  sync_threads();  // against spills, as in the forward
  if (warp_query >= call.tokens) return;
  store_sums(operands.dq.head(call, block.row(call), block.head), warp_query, call.tokens,
             call.head_dim, dq, {call.scale, call.scale}, q, warp_row);
}

// Which sums a block of keys makes: both, where they fit its registers.
enum class KeySums : std::uint8_t { both, keys, values };

// One block: Tiles::kOwn keys of one KV head of one sequence.
// Floor: 8·D flops for each visible pair of query and key (10·D where dK and dV are made apart),
// against the peak of tensor cores.
template <typename T, int kDim, KeySums kSums>
__global__ void __launch_bounds__(Tiles<T, kDim>::kThreads)
    keys_kernel(AttentionCall call, BackwardOperands<T> operands) {
  using Size = Tiles<T, kDim>;
  constexpr bool kOfKeys = kSums != KeySums::values;
  constexpr bool kOfValues = kSums != KeySums::keys;
  SharedMemory memory;
  const typename Size::Tile k(memory, Size::kOwn);
  const typename Size::Tile v(memory, Size::kOwn);
  const typename Size::Tile q(memory, Size::kOther);
  const typename Size::Tile dout(memory, Size::kOther);

  const int first_key = static_cast<int>(block_x()) * Size::kOwn;
  const std::int64_t sequence = block_z();
  const std::int64_t kv_head = block_y();
  const std::int64_t row = sequence * call.tokens;
  load_tile(k, Size::kOwn, operands.k.head(call, row, kv_head), first_key, call.tokens,
            call.head_dim);
  load_tile(v, Size::kOwn, operands.v.head(call, row, kv_head), first_key, call.tokens,
            call.head_dim);

  const int warp_row = warp_index() * kFragment;
  const int warp_key = first_key + warp_row;
  const float scale = call.scale * kLog2E;
  WarpSums<kDim> dk;
  WarpSums<kDim> dv;
  for (int member = 0; member < call.heads_per_kv_head; ++member) {
    const std::int64_t head = kv_head * call.heads_per_kv_head + member;
    const auto queries = operands.q.head(call, row, head);
    const auto douts = operands.dout.head(call, row, head);
    const std::int64_t first_row = (sequence * call.heads + head) * call.tokens;
    for (int query = first_key; query < call.tokens; query += Size::kOther) {
      if (first_visible_key(call, sequence, query) >= first_key + Size::kOwn) break;
      sync_threads();
      load_tile(q, Size::kOther, queries, query, call.tokens, call.head_dim);
      load_tile(dout, Size::kOther, douts, query, call.tokens, call.head_dim);
      async_wait();
      sync_threads();
      if (warp_key >= call.tokens || query + Size::kOther <= warp_key) continue;
      WarpSums<Size::kOther> scores;
      WarpSums<Size::kOther> gradients;
      multiply_by_rows(scores, k, warp_row, q, call.head_dim);
      if (kOfKeys) multiply_by_rows(gradients, v, warp_row, dout, call.head_dim);
      const bool no_edge = all_visible(call, query, Size::kOther, warp_key, kFragment);
#pragma unroll
      for (int n = 0; n < WarpSums<Size::kOther>::kFragments; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {  // this lane's columns
          const int column = query + n * kFragment + SumFragment::column(c % 2 + c / 2 * 4);
          const QueryRow of = query_row(call, sequence, column, operands.log_sum_exp + first_row,
                                        operands.row_dots + first_row);
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const int i = c % 2 + c / 2 * 4 + 2 * r;
            const int key = warp_key + SumFragment::row(i);
            const bool visible = no_edge || (of.first_visible <= key && key <= column);
            softmax_backward(scores.fragments[n].at[i], gradients.fragments[n].at[i], of, scale,
                             visible);
          }
        }
      }
      if (kOfValues) multiply_by_columns(dv, scores, dout, call.head_dim);
      if (kOfKeys) multiply_by_columns(dk, gradients, q, call.head_dim);
    }
  }
  async_wait();
  sync_threads();
  if (warp_key >= call.tokens) return;
  if (kOfKeys) {
    store_sums(operands.dk.head(call, row, kv_head), warp_key, call.tokens, call.head_dim, dk,
               {call.scale, call.scale}, k, warp_row);
  }
  if (kOfValues) {
    store_sums(operands.dv.head(call, row, kv_head), warp_key, call.tokens, call.head_dim, dv,
               {1.0f, 1.0f}, v, warp_row);
  }
}

}  // namespace

void attention_backward(cudaStream_t stream, const AttentionShape& shape,
                        const AttentionOptions& options, const Qkv& gradients, float* row_dots,
                        const Matrix& dout, const Qkv& qkv, const Matrix& out,
                        const float* log_sum_exp) {
  const AttentionCall call = attention_call(shape, options, shape.tokens, 0);
  with_kernels_for(out.dtype, shape.head_dim, [&]<typename T, int kDim>() {
    using Size = Tiles<T, kDim>;
    const BackwardOperands<T> operands = {head_rows<T>(gradients.q),
                                          head_rows<T>(gradients.k),
                                          head_rows<T>(gradients.v),
                                          head_rows<const T>(qkv.q),
                                          head_rows<const T>(qkv.k),
                                          head_rows<const T>(qkv.v),
                                          head_rows<const T>(out),
                                          head_rows<const T>(dout),
                                          log_sum_exp,
                                          row_dots};
    const auto run = [&](auto* kernel, std::int64_t heads) {
      const LaunchSize size = {
          .blocks_x = (shape.tokens + Size::kOwn - 1) / Size::kOwn,
          .blocks_y = heads,
          .blocks_z = shape.batch,
          .threads = Size::kThreads,
          .shared_bytes = Size::Tile::bytes(2 * Size::kOwn + 2 * Size::kOther)};
      check(launch(stream, size, kernel, call, operands), "attention_backward");
    };
    run(queries_kernel<T, kDim>, shape.heads);
    if constexpr (kDim <= 128) {
      run(keys_kernel<T, kDim, KeySums::both>, shape.kv_heads);
    } else {
      run(keys_kernel<T, kDim, KeySums::values>, shape.kv_heads);
      run(keys_kernel<T, kDim, KeySums::keys>, shape.kv_heads);
    }
  });
}

}  // namespace strata::ops::cuda

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

// Of a warp's 16 queries, rowsum(dO ∘ O): two lanes have a row, each every other vector of its
// columns, in order.
template <typename T>
__device__ inline void make_row_dots(float* row_dots, const HeadRows<const T>& dout,
                                     const HeadRows<const T>& out, int first,
                                     const AttentionCall& call) {
  constexpr int kElements = Vector<T>::kElements;
  const bool in_vectors = dout.in_vectors() && out.in_vectors();
  const int row = first + lane_index() / 2;
  const int end = row < call.tokens ? call.head_dim : 0;
  float dot = 0;
  for (int col = lane_index() % 2 * kElements; col < end; col += 2 * kElements) {
    const Vector<T> a = columns_of(dout, row, col, end, in_vectors);
    const Vector<T> b = columns_of(out, row, col, end, in_vectors);
#pragma unroll
    for (int i = 0; i < kElements; ++i) dot = fma_rn(widen(a.at[i]), widen(b.at[i]), dot);
  }
  dot += shuffle_xor(dot, 1);
  if (row < call.tokens && lane_index() % 2 == 0) store(row_dots + row, dot);
}

// What one query needs of its softmax.
struct alignas(16) QueryRow {
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

// Half as many rows at a time as in the forward, and of each two tiles: in bf16 two blocks with
// head_dim 128 on an SM of sm_86, 89 and 120, and registers for the sums of both.
template <typename T, int kDim>
struct BackwardTiles : Tiles<T, kDim> {
  using Base = Tiles<T, kDim>;
  static constexpr int kOther = std::max(kFragment, Base::kOther / 2);
  static constexpr std::int64_t kSharedBytes =
      Base::Tile::bytes(2 * (Base::kOwn + kOther)) + kOther * std::int64_t{sizeof(QueryRow)};
  static_assert(Base::kOwn % kOther == 0 && kSharedBytes <= 99 * 1024);
};

// A score becomes its probability, and the probability's gradient the score's.
__device__ inline void softmax_backward(float& score, float& gradient, const QueryRow& query,
                                        float scale, bool visible) {
  // At most 1, whatever rounding leaves of the difference between large scores.
  const float exponent = fma_rn(score, scale, -query.log_sum);
  const float p = visible ? exp2f(exponent > 0 ? 0.0f : exponent) : 0.0f;
  score = p;
  gradient = visible ? p * (gradient - query.dot) : 0.0f;
}

// One block: Tiles::kOwn queries of one head of one sequence; also makes their row dots.
// Floor: 6·D flops for each visible pair of query and key, against the peak of tensor cores.
template <typename T, int kDim>
__global__ void __launch_bounds__(Tiles<T, kDim>::kThreads)
    queries_kernel(AttentionCall call, BackwardOperands<T> operands) {
  using Size = BackwardTiles<T, kDim>;
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
  const float* const log_sums = operands.log_sum_exp + block.statistics(call);
  float* const row_dots = operands.row_dots + block.statistics(call);
  make_row_dots(row_dots, douts, operands.out.head(call, block.row(call), block.head), warp_query,
                call);
  sync_warp();
  QueryRow rows[2];
  for (int r = 0; r < 2; ++r) {
    rows[r] =
        query_row(call, block.sequence, warp_query + SumFragment::row(2 * r), log_sums, row_dots);
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
  using Size = BackwardTiles<T, kDim>;
  constexpr bool kOfKeys = kSums != KeySums::values;
  constexpr bool kOfValues = kSums != KeySums::keys;
  SharedMemory memory;
  const typename Size::Tile k(memory, Size::kOwn);
  const typename Size::Tile v(memory, Size::kOwn);
  const typename Size::Tile q(memory, Size::kOther);
  const typename Size::Tile dout(memory, Size::kOther);
  const auto rows = memory.take<QueryRow>(Size::kOther);

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
    const std::int64_t statistics = (sequence * call.heads + head) * call.tokens;
    for (int query = first_key; query < call.tokens; query += Size::kOther) {
      if (first_visible_key(call, sequence, query) >= first_key + Size::kOwn) break;
      sync_threads();
      load_tile(q, Size::kOther, queries, query, call.tokens, call.head_dim);
      load_tile(dout, Size::kOther, douts, query, call.tokens, call.head_dim);
      if (thread_index() < Size::kOther) {
        rows[thread_index()] =
            query_row(call, sequence, query + thread_index(), operands.log_sum_exp + statistics,
                      operands.row_dots + statistics);
      }
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
          const int column = n * kFragment + SumFragment::column(c % 2 + c / 2 * 4);
          const QueryRow of = rows[column];
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const int i = c % 2 + c / 2 * 4 + 2 * r;
            const int key = warp_key + SumFragment::row(i);
            const bool visible = no_edge || (of.first_visible <= key && key <= query + column);
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
    using Size = BackwardTiles<T, kDim>;
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
      const LaunchSize size = {.blocks_x = (shape.tokens + Size::kOwn - 1) / Size::kOwn,
                               .blocks_y = heads,
                               .blocks_z = shape.batch,
                               .threads = Size::kThreads,
                               .shared_bytes = Size::kSharedBytes};
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

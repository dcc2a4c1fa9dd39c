#include "kernels/device/cuda/cuda_error.h"
#include "kernels/ops/cuda/attention.h"
#include "kernels/ops/cuda/attention_decode.h"
#include "kernels/ops/cuda/attention_tiles.h"

namespace strata::ops::cuda {
namespace {

template <typename T>
struct ForwardOperands {
  HeadRows<T> out;
  float* log_sum_exp;  // (B, H, T), or null
  HeadRows<const T> q;
  HeadRows<const T> k;
  HeadRows<const T> v;
};

// The online softmax of a warp's 16 rows, of which a lane has two; exponents are of 2.
template <typename T, int kDim>
class SoftmaxRows {
 public:
  static constexpr int kKeys = Tiles<T, kDim>::kOther;

  // `first_row` of the warp.
  __device__ SoftmaxRows(const AttentionCall& call, std::int64_t sequence, int first_row)
      : scale_(call.scale * kLog2E) {
    for (int r = 0; r < 2; ++r) {
      const int query = first_row + SumFragment::row(2 * r);
      first_visible_[r] = first_visible_key(call, sequence, query);
      last_visible_[r] = call.past + query;
    }
  }

  __device__ void mask(WarpSums<kKeys>& scores, int first_key) const {
#pragma unroll
    for (int n = 0; n < WarpSums<kKeys>::kFragments; ++n) {
#pragma unroll
      for (int i = 0; i < SumFragment::kEntries; ++i) {
        const int key = first_key + n * kFragment + SumFragment::column(i);
        const bool visible = first_visible_[i / 2 % 2] <= key && key <= last_visible_[i / 2 % 2];
        if (!visible) scores.fragments[n].at[i] = -INFINITY;
      }
    }
  }

  // Scores become exp(scale·score - max'); sums and `out` are rescaled to it.
  __device__ void step(WarpSums<kKeys>& scores, WarpSums<kDim>& out) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float largest = -INFINITY;
      for_row(scores, r, [&](float& score) { largest = fmaxf(largest, score); });
      largest = fmaxf(largest, shuffle_xor(largest, 1));
      largest = fmaxf(largest, shuffle_xor(largest, 2));
      const float shift = fmaxf(shift_[r], largest * scale_);
      const float finite_shift = shift == -INFINITY ? 0.0f : shift;
      const float rescale = exp2f(shift_[r] - finite_shift);
      float sum = 0;
      for_row(scores, r, [&](float& score) {
        score = exp2f(fma_rn(score, scale_, -finite_shift));
        sum += score;
      });
      for_row(out, r, [&](float& value) { value *= rescale; });
      shift_[r] = shift;
      sum_[r] = sum_[r] * rescale + sum;
    }
  }

  // Over the lanes of a row.
  __device__ void finish(float (&factors)[2], float (&log_sums)[2]) const {
    for (int r = 0; r < 2; ++r) {
      float sum = sum_[r];
      sum += shuffle_xor(sum, 1);
      sum += shuffle_xor(sum, 2);
      factors[r] = 1 / sum;
      log_sums[r] = (shift_[r] + log2f(sum)) * kLn2;
    }
  }

 private:
  // The entries of one of a lane's two rows.
  template <int kCols, typename F>
  __device__ static void for_row(WarpSums<kCols>& sums, int r, const F& f) {
#pragma unroll
    for (int n = 0; n < WarpSums<kCols>::kFragments; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) f(sums.fragments[n].at[2 * r + i % 2 + i / 2 * 4]);
    }
  }

  float scale_;  // of scores, in powers of 2
  int first_visible_[2];
  int last_visible_[2];
  float shift_[2] = {-INFINITY, -INFINITY};  // the largest scaled score
  float sum_[2] = {};                        // of this lane's columns
};

// One block: Tiles::kOwn queries of one head of one sequence. It waits for a tile of k while it
// multiplies probabilities with one of v, and the other way round.
// Floor: 4·D flops for each visible pair of query and key, against the peak of tensor cores; bytes
// are q and out once, and k and v once for each block of queries, mostly from the L2.
template <typename T, int kDim>
__global__ void __launch_bounds__(Tiles<T, kDim>::kThreads)
    forward_kernel(AttentionCall call, ForwardOperands<T> operands) {
  using Size = Tiles<T, kDim>;
  SharedMemory memory;
  const typename Size::Tile q(memory, Size::kOwn);
  const typename Size::Tile k(memory, Size::kOther);
  const typename Size::Tile v(memory, Size::kOther);

  const auto block = query_block<Size::kOwn>(call, operands.q, operands.k, operands.v);
  const int first_visible = first_visible_key(call, block.sequence, block.first_query);
  const int keys_end = call.past + std::min(call.tokens, block.first_query + Size::kOwn);

  const int warp_row = warp_index() * kFragment;
  const int warp_query = block.first_query + warp_row;
  SoftmaxRows<T, kDim> softmax(call, block.sequence, warp_query);
  WarpSums<kDim> out;

  const int first_key = first_visible / Size::kOther * Size::kOther;
  load_tile(q, Size::kOwn, block.queries, block.first_query, call.tokens, call.head_dim);
  load_tile(k, Size::kOther, block.keys, first_key, keys_end, call.head_dim);
  for (int key = first_key; key < keys_end; key += Size::kOther) {
    async_wait();
    sync_threads();
    load_tile(v, Size::kOther, block.values, key, keys_end, call.head_dim);
    const bool sees = warp_query < call.tokens && key < call.past + warp_query + kFragment;
    WarpSums<Size::kOther> scores;
    if (sees) multiply_by_rows(scores, q, warp_row, k, call.head_dim);
    async_wait();
    sync_threads();
    if (key + Size::kOther < keys_end) {
      load_tile(k, Size::kOther, block.keys, key + Size::kOther, keys_end, call.head_dim);
    }
    if (!sees) continue;
    if (!all_visible(call, warp_query, kFragment, key, Size::kOther)) softmax.mask(scores, key);
    softmax.step(scores, out);
    multiply_by_columns(out, scores, v, call.head_dim);
  }

  sync_threads();  // without it ptxas keeps the addresses of stores through the loop, and spills
  if (warp_query >= call.tokens) return;
  float factors[2];
  float log_sums[2];
  softmax.finish(factors, log_sums);
  store_sums(operands.out.head(call, block.row(call), block.head), warp_query, call.tokens,
             call.head_dim, out, factors, q, warp_row);
  if (operands.log_sum_exp == nullptr || lane_index() % 4 != 0) return;
  float* const rows = operands.log_sum_exp + block.statistics(call);
  for (int r = 0; r < 2; ++r) {
    const int query = warp_query + SumFragment::row(2 * r);
    if (query < call.tokens) store(rows + query, log_sums[r]);
  }
}

void run(cudaStream_t stream, const AttentionShape& shape, const AttentionCall& call,
         const Matrix& out, float* log_sum_exp, const Qkv& qkv) {
  with_kernels_for(out.dtype, shape.head_dim, [&]<typename T, int kDim>() {
    using Size = Tiles<T, kDim>;
    const LaunchSize size = {.blocks_x = (shape.tokens + Size::kOwn - 1) / Size::kOwn,
                             .blocks_y = shape.heads,
                             .blocks_z = shape.batch,
                             .threads = Size::kThreads,
                             .shared_bytes = Size::Tile::bytes(Size::kOwn + 2 * Size::kOther)};
    check(launch(stream, size, forward_kernel<T, kDim>, call,
                 ForwardOperands<T>{head_rows<T>(out), log_sum_exp, head_rows<const T>(qkv.q),
                                    head_rows<const T>(qkv.k), head_rows<const T>(qkv.v)}),
          "attention_forward");
  });
}

// Floor: reads and writes of rows, over the bandwidth.
template <typename T>
__global__ void put_rows(HeadRows<T> to, HeadRows<const T> from, std::int64_t rows,
                         std::int64_t cols) {
  for (std::int64_t i = block_x() * block_threads() + thread_index(); i < rows * cols;
       i += blocks_x() * block_threads()) {
    store(to.data + i / cols * to.stride + i % cols,
          load(from.data + i / cols * from.stride + i % cols));
  }
}

// `from` as rows [first, …) of `to`.
void put_rows_at(cudaStream_t stream, const Matrix& to, std::int64_t first, const Matrix& from) {
  const auto put = [&]<typename T>(T* data) {
    const LaunchSize size = {.blocks_x = (from.rows * from.cols + 255) / 256};
    check(launch(stream, size, put_rows<T>, HeadRows<T>{data + first * to.stride, to.stride},
                 head_rows<const T>(from), from.rows, from.cols),
          "attention_with_cache");
  };
  if (to.dtype == Dtype::bf16) return put(static_cast<bf16*>(to.data));
  put(static_cast<float*>(to.data));
}

}  // namespace

void attention_forward(cudaStream_t stream, const AttentionShape& shape,
                       const AttentionOptions& options, const Matrix& out, float* log_sum_exp,
                       const Qkv& qkv) {
  run(stream, shape, attention_call(shape, options, shape.tokens, 0), out, log_sum_exp, qkv);
}

void attention_with_cache(cudaStream_t stream, const Scratch& scratch, const AttentionShape& shape,
                          const AttentionOptions& options, const Matrix& out, const Qkv& qkv,
                          const KvCache& cache, std::int64_t past) {
  put_rows_at(stream, cache.k, past, qkv.k);
  put_rows_at(stream, cache.v, past, qkv.v);
  const AttentionCall call = attention_call(shape, options, cache.k.rows, past);
  if (shape.tokens == 1) {
    return attention_decode(stream, scratch, call, out, qkv.q, cache.k, cache.v);
  }
  run(stream, shape, call, out, nullptr, {qkv.q, cache.k, cache.v});
}

}  // namespace strata::ops::cuda

#include "kernels/ops/cuda/attention_decode.h"

#include "kernels/base/bytes.h"
#include "kernels/device/cuda/cuda_error.h"
#include "kernels/ops/cuda/attention_tiles.h"

namespace strata::ops::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kTeam = 8;  // lanes that share a key
constexpr int kSplitKeysMin = 64;
constexpr int kSplitsMax = 64;

// Keys [first, end) in splits of `keys`, but for the last.
struct Splits {
  int first;
  int end;
  int keys;
  constexpr int count() const { return (end - first + keys - 1) / keys; }
};

Splits splits_of(const AttentionCall& call) {
  const int end = call.past + 1;
  const int first = call.window == 0 ? 0 : std::max(0, end - call.window);
  const int keys = static_cast<int>(round_up((end - first + kSplitsMax - 1) / kSplitsMax, 16));
  return {first, end, std::max(kSplitKeysMin, keys)};
}

// What the splits of all heads leave: with p of a key exp(its score - the split's largest), the
// sums of p·value (H, splits, D); the largest, in powers of 2, and the sum of p (H, splits, 2).
struct Parts {
  float* outs;
  float* statistics;
};

// scores[i] = the score of key first + i, in powers of 2.
template <typename T>
__device__ inline void score_keys(const SharedArray<float>& scores, const SharedArray<float>& q,
                                  const HeadRows<const T>& keys, int first, int count,
                                  const AttentionCall& call) {
  constexpr int kElements = Vector<T>::kElements;
  constexpr int kTeams = kThreads / kTeam;
  const bool in_vectors = keys.in_vectors() && call.head_dim % kElements == 0;
  const int member = thread_index() % kTeam;
  for (int round = 0; round < count; round += kTeams) {
    const int key = round + thread_index() / kTeam;
    float dot = 0;
    if (key < count) {
      for (int col = member * kElements; col < call.head_dim; col += kTeam * kElements) {
        const Vector<T> k = columns_of(keys, first + key, col, call.head_dim, in_vectors);
#pragma unroll
        for (int i = 0; i < kElements; ++i) {
          if (col + i < call.head_dim) dot = fma_rn(q[col + i], widen(k.at[i]), dot);
        }
      }
    }
    for (int lanes = kTeam / 2; lanes > 0; lanes /= 2) dot += shuffle_xor(dot, lanes);
    if (key < count && member == 0) scores[key] = dot * call.scale * kLog2E;
  }
}

// By one warp: scores become probabilities but for a factor; their largest and the sum are stored.
__device__ inline void exponentiate(const SharedArray<float>& scores, int count,
                                    float* statistics) {
  float largest = -INFINITY;
  for (int i = lane_index(); i < count; i += kWarpThreads) largest = fmaxf(largest, scores[i]);
  for (int lanes = kWarpThreads / 2; lanes > 0; lanes /= 2) {
    largest = fmaxf(largest, shuffle_xor(largest, lanes));
  }
  float sum = 0;
  for (int i = lane_index(); i < count; i += kWarpThreads) {
    scores[i] = exp2f(scores[i] - largest);
    sum += scores[i];
  }
  for (int lanes = kWarpThreads / 2; lanes > 0; lanes /= 2) sum += shuffle_xor(sum, lanes);
  if (lane_index() == 0) {
    store(statistics, largest);
    store(statistics + 1, sum);
  }
}

// out (D) = the sum of p·value: threads by columns, and as many groups of them as there are take
// every so manieth key; then the groups in order.
template <typename T>
__device__ inline void sum_values(float* out, const SharedArray<float>& p,
                                  const SharedArray<float>& sums, const HeadRows<const T>& values,
                                  int first, int count, int head_dim) {
  constexpr int kElements = Vector<T>::kElements;
  const bool in_vectors = values.in_vectors() && head_dim % kElements == 0;
  const int vectors = (head_dim + kElements - 1) / kElements;
  const int groups = kThreads / vectors;
  const int group = thread_index() / vectors;
  const int col = thread_index() % vectors * kElements;
  float sum[kElements] = {};
  for (int key = group; group < groups && key < count; key += groups) {
    const Vector<T> value = columns_of(values, first + key, col, head_dim, in_vectors);
#pragma unroll
    for (int i = 0; i < kElements; ++i) sum[i] = fma_rn(p[key], widen(value.at[i]), sum[i]);
  }
  if (group < groups) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) sums[thread_index() * kElements + i] = sum[i];
  }
  sync_threads();
  for (int c = thread_index(); c < head_dim; c += kThreads) {
    float total = 0;
    for (int g = 0; g < groups; ++g) total += sums[g * vectors * kElements + c];
    store(out + c, total);
  }
}

// One block: a split of one head. Heads that share keys lie side by side.
// Floor: the keys and values once, over the bandwidth; once more from the L2 for each head that
// shares them.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    split_kernel(AttentionCall call, Splits splits, Parts parts, HeadRows<const T> q,
                 HeadRows<const T> keys, HeadRows<const T> values) {
  SharedMemory memory;
  const auto query = memory.template take<float>(call.head_dim);
  const auto scores = memory.template take<float>(splits.keys);
  const auto sums = memory.template take<float>(kThreads * Vector<T>::kElements);
  const std::int64_t head = block_x();
  const std::int64_t kv_head = head / call.heads_per_kv_head;
  const int first = splits.first + static_cast<int>(block_y()) * splits.keys;
  const int count = std::min(splits.keys, splits.end - first);
  const std::int64_t part = head * splits.count() + block_y();

  const auto own_query = q.head(call, 0, head);
  for (int c = thread_index(); c < call.head_dim; c += kThreads) {
    query[c] = widen(load(own_query.data + c));
  }
  sync_threads();
  score_keys(scores, query, keys.head(call, 0, kv_head), first, count, call);
  sync_threads();
  if (warp_index() == 0) exponentiate(scores, count, parts.statistics + 2 * part);
  sync_threads();
  sum_values(parts.outs + part * call.head_dim, scores, sums, values.head(call, 0, kv_head), first,
             count, call.head_dim);
}

// One block: one head, its splits in order.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    join_kernel(AttentionCall call, int splits, Parts parts, HeadRows<T> out) {
  const std::int64_t head = block_x();
  const float* const outs = parts.outs + head * splits * call.head_dim;
  const float* const statistics = parts.statistics + 2 * head * splits;
  const auto own_out = out.head(call, 0, head);
  float largest = -INFINITY;
  for (int s = 0; s < splits; ++s) largest = fmaxf(largest, load(statistics + 2 * s));
  for (int c = thread_index(); c < call.head_dim; c += kThreads) {
    float total = 0;
    float sum = 0;
    for (int s = 0; s < splits; ++s) {
      const float factor = exp2f(load(statistics + 2 * s) - largest);
      total = fma_rn(factor, load(statistics + 2 * s + 1), total);
      sum = fma_rn(factor, load(outs + s * call.head_dim + c), sum);
    }
    store(own_out.data + c, narrow<T>(sum / total));
  }
}

template <typename T>
void run(cudaStream_t stream, const Scratch& scratch, const AttentionCall& call, const Matrix& out,
         const Matrix& q, const Matrix& keys, const Matrix& values) {
  const Splits splits = splits_of(call);
  const std::int64_t count = std::int64_t{call.heads} * splits.count();
  float* const floats = scratch.as<float>("attention_with_cache", count * (call.head_dim + 2));
  const Parts parts = {floats, floats + count * call.head_dim};
  const LaunchSize size = {.blocks_x = call.heads,
                           .blocks_y = splits.count(),
                           .threads = kThreads,
                           .shared_bytes = (round_up(call.head_dim, 4) + round_up(splits.keys, 4) +
                                            kThreads * Vector<T>::kElements) *
                                           bytes_of(Dtype::f32)};
  check(launch(stream, size, split_kernel<T>, call, splits, parts, head_rows<const T>(q),
               head_rows<const T>(keys), head_rows<const T>(values)),
        "attention_with_cache");
  check(launch(stream, {.blocks_x = call.heads, .threads = kThreads}, join_kernel<T>, call,
               splits.count(), parts, head_rows<T>(out)),
        "attention_with_cache");
}

}  // namespace

void attention_decode(cudaStream_t stream, const Scratch& scratch, const AttentionCall& call,
                      const Matrix& out, const Matrix& q, const Matrix& keys,
                      const Matrix& values) {
  if (out.dtype == Dtype::bf16) {
    return run<bf16>(stream, scratch, call, out, q, keys, values);
  }
  run<float>(stream, scratch, call, out, q, keys, values);
}

}  // namespace strata::ops::cuda

#include "kernels/ops/cuda/cross_entropy.h"

#include <cmath>

#include "kernels/ops/cuda/pieces.h"

namespace strata::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpThreads;

// Floor: one write of the statistics, over the bandwidth.
__global__ void init(SoftmaxStats stats, std::int64_t rows) {
  const std::int64_t row = block_x() * block_threads() + thread_index();
  if (row >= rows) return;
  store(stats.max + row, -INFINITY);
  store(stats.sum_exp + row, 0.0f);
  store(stats.target_logit + row, 0.0f);
}

// The largest of some logits, and the sum of exp(logit - max). A NaN is in the sum alone.
struct MaxSum {
  float max;
  float sum;
};

// What a logit is reduced by in an exponent: -inf - -inf is no number.
__device__ float shift_of(float max) { return max == -INFINITY ? 0.0f : max; }

__device__ MaxSum join(MaxSum a, MaxSum b) {
  const float max = b.max > a.max ? b.max : a.max;
  const float shift = shift_of(max);
  return {max, a.sum * expf(a.max - shift) + b.sum * expf(b.max - shift)};
}

// A block for each row, which is read once: each thread rescales its sum when it meets a larger
// logit. Sums: a thread's pieces in order, then lanes by halves, then warps in order.
// Floor: one read of the logits, over the bandwidth.
__global__ void update(SoftmaxStats stats, Rows<const float> rows, std::int64_t cols, bool vectors,
                       const std::int32_t* targets, std::int64_t first_id) {
  constexpr int kColumns = kPieceColumns<float>;
  SharedMemory shared;
  const SharedArray<MaxSum> warp_results = shared.take<MaxSum>(kWarps);
  const std::int64_t row = block_x();
  const std::int32_t target = load(targets + row);
  if (target == kIgnoredTarget) return;
  const float* const logits = rows.at(row);

  MaxSum result = {-INFINITY, 0};
  const auto take = [&](std::int64_t piece, auto extent) {
    const auto values = load_piece<kColumns>(logits + piece * kColumns, extent, -INFINITY);
    float max = result.max;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) max = values.at[i] > max ? values.at[i] : max;
    const float shift = shift_of(max);
    if (max > result.max) result = {max, result.sum * expf(result.max - shift)};
#pragma unroll
    for (int i = 0; i < kColumns; ++i) result.sum += expf(values.at[i] - shift);
  };
  for_pieces<kColumns>(cols, vectors, thread_index(), kThreads, take);
  for (int lanes = kWarpThreads / 2; lanes > 0; lanes /= 2) {
    const MaxSum other = {shuffle_xor(result.max, lanes), shuffle_xor(result.sum, lanes)};
    result = join(result, other);
  }
  if (lane_index() == 0) warp_results[warp_index()] = result;
  sync_threads();

  if (thread_index() != 0) return;
  for (int warp = 1; warp < kWarps; ++warp) result = join(result, warp_results[warp]);
  result = join({load(stats.max + row), load(stats.sum_exp + row)}, result);
  store(stats.max + row, result.max);
  store(stats.sum_exp + row, result.sum);
  const std::int64_t column = target - first_id;
  if (column >= 0 && column < cols) store(stats.target_logit + row, load(logits + column));
}

// One block, whose first thread adds the rows' losses in order.
// Floor: the latency of one f64 addition for each row.
__global__ void add_losses(double* loss_sum, SoftmaxStats stats, const std::int32_t* targets,
                           std::int64_t rows, TargetCounts* counts) {
  SharedMemory shared;
  const SharedArray<double> losses = shared.take<double>(kThreads);
  const SharedArray<TargetCounts> thread_counts = shared.take<TargetCounts>(kThreads);
  TargetCounts counted;
  double total = thread_index() == 0 ? load(loss_sum) : 0.0;
  for (std::int64_t first = 0; first < rows; first += kThreads) {
    const std::int64_t row = first + thread_index();
    double loss = 0;
    if (row < rows && load(targets + row) != kIgnoredTarget) {
      const float max = load(stats.max + row);
      const float target_logit = load(stats.target_logit + row);
      loss = log(static_cast<double>(load(stats.sum_exp + row))) +
             (static_cast<double>(max) - target_logit);
      ++counted.targets;
      if (target_logit >= max) ++counted.correct;  // not of a NaN
    }
    losses[thread_index()] = loss;
    sync_threads();
    if (thread_index() == 0) {
      for (int i = 0; i < kThreads; ++i) total = add_rn(total, losses[i]);
    }
    sync_threads();
  }
  thread_counts[thread_index()] = counted;
  sync_threads();
  if (thread_index() != 0) return;
  store(loss_sum, total);
  if (counts == nullptr) return;
  TargetCounts all = {load(&counts->targets), load(&counts->correct)};
  for (int i = 0; i < kThreads; ++i) {
    all.targets += thread_counts[i].targets;
    all.correct += thread_counts[i].correct;
  }
  store(&counts->targets, all.targets);
  store(&counts->correct, all.correct);
}

// Floor: one read of the logits and one write of their gradients, over the bandwidth.
template <typename T>
__global__ void backward(PieceGrid grid, Rows<T> dlogits, Rows<const float> logits,
                         SoftmaxStats stats, const std::int32_t* targets, std::int64_t first_id,
                         float scale) {
  constexpr int kColumns = kPieceColumns<T>;
  for_own_piece<kColumns>(grid, [&](std::int64_t row, std::int64_t column, auto extent) {
    const std::int32_t target = load(targets + row);
    Piece<kColumns> gradient = {};
    if (target != kIgnoredTarget) {
      const auto values = load_piece<kColumns>(logits.at(row, column), extent);
      const float shift = load(stats.max + row);
      const float factor = div_rn(scale, load(stats.sum_exp + row));
      const std::int64_t hit = target - first_id - column;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        gradient.at[i] = mul_rn(expf(values.at[i] - shift), factor) - (i == hit ? scale : 0.0f);
      }
    }
    store_piece(dlogits.at(row, column), gradient, extent);
  });
}

}  // namespace

void softmax_stats_init(cudaStream_t stream, const SoftmaxStats& stats, std::int64_t rows) {
  if (rows == 0) return;
  check(launch(stream, {.blocks_x = ceil_div(rows, kThreads), .threads = kThreads}, init, stats,
               rows),
        "softmax_stats_init");
}

void softmax_stats_update(cudaStream_t stream, const SoftmaxStats& stats, const Matrix& logits,
                          const std::int32_t* targets, std::int64_t first_id) {
  if (logits.rows == 0) return;
  const LaunchSize size = {.blocks_x = logits.rows,
                           .threads = kThreads,
                           .shared_bytes = kWarps * std::int64_t{sizeof(MaxSum)}};
  check(launch(stream, size, update, stats, rows_of<const float>(logits), logits.cols,
               allow_vectors(logits), targets, first_id),
        "softmax_stats_update");
}

void cross_entropy_loss(cudaStream_t stream, double* loss_sum, const SoftmaxStats& stats,
                        const std::int32_t* targets, std::int64_t rows, TargetCounts* counts) {
  const LaunchSize size = {
      .threads = kThreads,
      .shared_bytes = kThreads * std::int64_t{sizeof(double) + sizeof(TargetCounts)}};
  check(launch(stream, size, add_losses, loss_sum, stats, targets, rows, counts),
        "cross_entropy_loss");
}

void cross_entropy_backward(cudaStream_t stream, const Matrix& dlogits, const Matrix& logits,
                            const SoftmaxStats& stats, const std::int32_t* targets,
                            std::int64_t first_id, float scale) {
  const PieceGrid grid{logits.rows, logits.cols, allow_vectors(dlogits) && allow_vectors(logits)};
  with_type(dlogits.dtype, [&]<typename T>() {
    launch_pieces<kPieceColumns<T>>("cross_entropy_backward", stream, grid, backward<T>,
                                    rows_of<T>(dlogits), rows_of<const float>(logits), stats,
                                    targets, first_id, scale);
  });
}

}  // namespace strata::ops::cuda

#include "kernels/ops/cuda/norm.h"
#include "kernels/ops/cuda/norm_rows.h"

namespace strata::ops::cuda {
namespace {

constexpr std::int64_t kSharedBytesMax = 99 * kKiB;  // of a block, on every GPU since sm_80

// Groups are summed in at most this many sets, a block each, and then the sets in order.
constexpr std::int64_t kSetsMax = 256;

template <typename X, typename Y>
struct Backward {
  Rows<X> dx;
  bool adds;  // to dx
  Rows<const Y> dy;
  Rows<const X> x;
  const X* weight;
  const float* mean;
  const float* rstd;
  std::int64_t set_groups;
  float* dweights;  // (sets, width)
  float* dbiases;   // (sets, width)
  bool in_shared;   // the sums of a set
};

// With g = dy · weight and n = (x - mean) · rstd: dx = rstd (g - mean(g) - n · mean(g · n)), and
// where kCentred is not, without mean and mean(g). dweight: the sum of dy · n, dbias: of dy.
// Floor: one read of x and dy, one write of dx (and a read, where it adds), over the bandwidth.
template <bool kCentred, typename X, typename Y>
__global__ void backward(Groups groups, Backward<X, Y> op) {
  constexpr int kColumns = kPieceColumns<X, Y>;
  SharedMemory shared;
  const SharedArray<float> warp_sums = shared.take<float>(2 * kWarpSums);
  const Team& team = groups.team;
  const std::int64_t partial = block_x() * groups.width;
  const ColumnSums<kColumns> dweight(team, shared, op.in_shared, groups.width,
                                     op.dweights + partial);
  const ColumnSums<kColumns> dbias(team, shared, op.in_shared && kCentred,
                                   kCentred ? groups.width : 0, op.dbiases + partial);
  const std::int64_t begin = block_x() * op.set_groups;
  const std::int64_t end = std::min(begin + op.set_groups, groups.count);

  for (std::int64_t first = begin; first < end; first += team.in_block()) {
    const std::int64_t group = first + team.index();
    const bool exists = group < end;
    const Y* const dy = exists ? groups.at(op.dy, group) : nullptr;
    const X* const x = exists ? groups.at(op.x, group) : nullptr;
    const float mean = kCentred && exists ? load(op.mean + group) : 0.0f;
    const float rstd = exists ? load(op.rstd + group) : 0.0f;
    const auto for_row = [&](const auto& body) {
      if (!exists) return;
      for_pieces<kColumns>(groups.width, groups.vectors, team.member(), team.threads,
                           [&](std::int64_t piece, auto extent) {
                             const std::int64_t column = piece * kColumns;
                             auto n = load_piece<kColumns>(x + column, extent);
#pragma unroll
                             for (int i = 0; i < kColumns; ++i) n.at[i] = (n.at[i] - mean) * rstd;
                             body(piece, extent, n, load_piece<kColumns>(dy + column, extent),
                                  load_piece<kColumns>(op.weight + column, extent));
                           });
    };

    float means[kCentred ? 2 : 1] = {};  // of g · n, of g
    for_row([&](std::int64_t /*piece*/, auto /*extent*/, const auto& n, const auto& d,
                const auto& weight) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        const float g = d.at[i] * weight.at[i];
        means[0] += g * n.at[i];
        if constexpr (kCentred) means[1] += g;
      }
    });
    team.add_up(means, warp_sums);
    const auto count = static_cast<float>(groups.width);
    const float gn_mean = div_rn(means[0], count);
    float g_mean = 0;
    if constexpr (kCentred) g_mean = div_rn(means[1], count);

    X* const dx = exists ? groups.at(op.dx, group) : nullptr;
    for_row([&](std::int64_t piece, auto extent, const auto& n, const auto& d, const auto& weight) {
      Piece<kColumns> gradient = {};
      if (op.adds) gradient = load_piece<kColumns>(dx + piece * kColumns, extent);
      Piece<kColumns> dn;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        const float g = d.at[i] * weight.at[i];
        gradient.at[i] += rstd * (g - g_mean - n.at[i] * gn_mean);
        dn.at[i] = d.at[i] * n.at[i];
      }
      dweight.add(piece, dn);
      if (kCentred) dbias.add(piece, d);
      store_piece(dx + piece * kColumns, gradient, extent);
    });
  }
  sync_threads();
  dweight.finish();
  if (kCentred) dbias.finish();
}

// What the sets have summed, (sets, width) of each result.
struct SetSums {
  const float* sums;
  std::int64_t sets;
  std::int64_t width;
  float* dweight;
  float* dbias;
  bool adds;
};

// Each warp adds its eighth of the sets in order, then the warps are added in order.
// Floor: one read of the sums, over the bandwidth.
__global__ void add_sets(SetSums op) {
  constexpr int kWarps = kNormThreads / kWarpThreads;
  SharedMemory shared;
  const SharedArray<float> parts = shared.take<float>(kNormThreads);
  const std::int64_t column = block_x() * kWarpThreads + lane_index();
  const std::int64_t warp_sets = ceil_div(op.sets, kWarps);
  const std::int64_t begin = warp_index() * warp_sets;
  const float* const sums = op.sums + block_y() * op.sets * op.width + column;
  float sum = 0;
  if (column < op.width) {
    for (std::int64_t set = begin; set < std::min(begin + warp_sets, op.sets); ++set) {
      sum += load(sums + set * op.width);
    }
  }
  parts[thread_index()] = sum;
  sync_threads();
  if (warp_index() != 0 || column >= op.width) return;
  float* const result = (block_y() == 0 ? op.dweight : op.dbias) + column;
  float total = op.adds ? load(result) : 0.0f;
  for (int warp = 0; warp < kWarps; ++warp) total += parts[warp * kWarpThreads + lane_index()];
  store(result, total);
}

struct BackwardOperands {
  Matrix dx;
  Into dx_into;
  float* dweight;
  float* dbias;
  Into parameters;
  Matrix dy;
  Matrix x;
  std::int64_t width;
  const void* weight;
  const float* mean;
  const float* rstd;
};

template <bool kCentred, typename X, typename Y>
void run_backward(const char* op, cudaStream_t stream, const Scratch& scratch,
                  const BackwardOperands& o) {
  constexpr int kColumns = kPieceColumns<X, Y>;
  constexpr int kResults = kCentred ? 2 : 1;
  const bool vectors =
      allow_vectors(o.dx) && allow_vectors(o.dy) && allow_vectors(o.x) && allow_vectors(o.weight);
  const auto groups = Groups::of<kColumns>(o.x, o.width, vectors);
  const std::int64_t in_block = groups.team.in_block();
  const std::int64_t set_groups =
      round_up(std::max(4 * in_block, ceil_div(groups.count, kSetsMax)), in_block);
  const std::int64_t sets = ceil_div(groups.count, set_groups);
  float* const sums = scratch.as<float>(op, kResults * sets * o.width);

  const auto shared_bytes = [&](std::int64_t column_sums) {
    return (2 * kWarpSums + column_sums) * kF32Bytes;
  };
  const std::int64_t column_sums =
      kResults * ColumnSums<kColumns>::shared_elements(groups.team, o.width);
  const bool in_shared = shared_bytes(column_sums) <= kSharedBytesMax;
  const Backward<X, Y> operands = {.dx = rows_of<X>(o.dx),
                                   .adds = o.dx_into == Into::add,
                                   .dy = rows_of<const Y>(o.dy),
                                   .x = rows_of<const X>(o.x),
                                   .weight = static_cast<const X*>(o.weight),
                                   .mean = o.mean,
                                   .rstd = o.rstd,
                                   .set_groups = set_groups,
                                   .dweights = sums,
                                   .dbiases = sums + sets * o.width,
                                   .in_shared = in_shared};
  if (sets > 0) {
    const LaunchSize size = {.blocks_x = sets,
                             .threads = kNormThreads,
                             .shared_bytes = shared_bytes(in_shared ? column_sums : 0)};
    check(launch(stream, size, backward<kCentred, X, Y>, groups, operands), op);
  }
  const LaunchSize size = {.blocks_x = ceil_div(o.width, kWarpThreads),
                           .blocks_y = kResults,
                           .threads = kNormThreads,
                           .shared_bytes = kNormThreads * kF32Bytes};
  check(launch(stream, size, add_sets,
               SetSums{sums, sets, o.width, o.dweight, o.dbias, o.parameters == Into::add}),
        op);
}

template <bool kCentred>
void run_backward(const char* op, cudaStream_t stream, const Scratch& scratch,
                  const BackwardOperands& o) {
  if (o.x.dtype == Dtype::f32) {
    run_backward<kCentred, float, float>(op, stream, scratch, o);
  } else if (o.dy.dtype == Dtype::f32) {
    run_backward<kCentred, bf16, float>(op, stream, scratch, o);
  } else {
    run_backward<kCentred, bf16, bf16>(op, stream, scratch, o);
  }
}

}  // namespace

std::int64_t norm_scratch_bytes(std::int64_t cols) { return 2 * kSetsMax * cols * kF32Bytes; }

void layernorm_backward(cudaStream_t stream, const Scratch& scratch, const Matrix& dx, Into dx_into,
                        float* dweight, float* dbias, Into parameters, const Matrix& dy,
                        const Matrix& x, const void* weight, const float* mean, const float* rstd) {
  run_backward<true>("layernorm_backward", stream, scratch,
                     {dx, dx_into, dweight, dbias, parameters, dy, x, x.cols, weight, mean, rstd});
}

void rmsnorm_backward(cudaStream_t stream, const Scratch& scratch, const Matrix& dx, Into dx_into,
                      const Matrix& dweight, Into dweight_into, const Matrix& dy, const Matrix& x,
                      const Matrix& weight, const float* rstd) {
  run_backward<false>("rmsnorm_backward", stream, scratch,
                      {dx, dx_into, static_cast<float*>(dweight.data), nullptr, dweight_into, dy, x,
                       weight.cols, weight.data, nullptr, rstd});
}

}  // namespace strata::ops::cuda

#include "kernels/ops/cuda/norm.h"
#include "kernels/ops/cuda/norm_rows.h"
#include "kernels/ops/layernorm.h"

namespace strata::ops::cuda {
namespace {

// y = (x - mean) · rstd · weight + bias, or where kCentred is not: y = x · rstd · weight.
template <typename T>
struct Forward {
  Rows<T> y;
  float* mean;
  float* rstd;
  Rows<const T> x;
  const T* weight;
  const T* bias;
  float epsilon;
};

// Floor: one read of x and one write of y, over the bandwidth; what a team reads again is in L1.
template <bool kCentred, typename T>
__global__ void forward(Groups groups, Forward<T> op) {
  constexpr int kColumns = kPieceColumns<T>;
  SharedMemory shared;
  const SharedArray<float> warp_sums = shared.take<float>(kWarpSums);
  const Team& team = groups.team;
  const std::int64_t group = block_x() * team.in_block() + team.index();
  const bool exists = group < groups.count;
  const T* const x = exists ? groups.at(op.x, group) : nullptr;
  const auto for_row = [&](const auto& body) {
    if (exists)
      for_pieces<kColumns>(groups.width, groups.vectors, team.member(), team.threads, body);
  };
  const auto count = static_cast<float>(groups.width);

  float mean = 0;
  if constexpr (kCentred) {
    float total[1] = {0};
    for_row([&](std::int64_t piece, auto extent) {
      const auto values = load_piece<kColumns>(x + piece * kColumns, extent);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) total[0] += values.at[i];
    });
    team.add_up(total, warp_sums);
    mean = div_rn(total[0], count);
  }
  float squares[1] = {0};
  for_row([&](std::int64_t piece, auto extent) {
    const auto values = load_piece<kColumns>(x + piece * kColumns, extent, mean);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const float centred = values.at[i] - mean;
      squares[0] += centred * centred;
    }
  });
  team.add_up(squares, warp_sums);
  const float rstd = div_rn(1.0f, sqrt_rn(div_rn(squares[0], count) + op.epsilon));

  if (!exists) return;
  if (team.member() == 0) {
    if (kCentred) store(op.mean + group, mean);
    store(op.rstd + group, rstd);
  }
  T* const y = groups.at(op.y, group);
  for_row([&](std::int64_t piece, auto extent) {
    auto values = load_piece<kColumns>(x + piece * kColumns, extent);
    const auto weight = load_piece<kColumns>(op.weight + piece * kColumns, extent);
    Piece<kColumns> bias = {};
    if (kCentred) bias = load_piece<kColumns>(op.bias + piece * kColumns, extent);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      values.at[i] = (values.at[i] - mean) * rstd * weight.at[i];
      if (kCentred) values.at[i] += bias.at[i];
    }
    store_piece(y + piece * kColumns, values, extent);
  });
}

// `mean` and `bias` are of a centred norm.
template <bool kCentred>
void run_forward(const char* op, cudaStream_t stream, const Matrix& y, float* mean, float* rstd,
                 const Matrix& x, std::int64_t width, const void* weight, const void* bias,
                 float epsilon) {
  with_type(x.dtype, [&]<typename T>() {
    const bool vectors =
        allow_vectors(y) && allow_vectors(x) && allow_vectors(weight) && allow_vectors(bias);
    const auto groups = Groups::of<kPieceColumns<T>>(x, width, vectors);
    if (groups.count == 0) return;
    const LaunchSize size = {.blocks_x = ceil_div(groups.count, groups.team.in_block()),
                             .threads = kNormThreads,
                             .shared_bytes = kWarpSums * kF32Bytes};
    const Forward<T> operands = {rows_of<T>(y),
                                 mean,
                                 rstd,
                                 rows_of<const T>(x),
                                 static_cast<const T*>(weight),
                                 static_cast<const T*>(bias),
                                 epsilon};
    check(launch(stream, size, forward<kCentred, T>, groups, operands), op);
  });
}

}  // namespace

void layernorm_forward(cudaStream_t stream, const Matrix& y, float* mean, float* rstd,
                       const Matrix& x, const void* weight, const void* bias) {
  run_forward<true>("layernorm_forward", stream, y, mean, rstd, x, x.cols, weight, bias,
                    kLayerNormEpsilon);
}

void rmsnorm_forward(cudaStream_t stream, const Matrix& y, float* rstd, const Matrix& x,
                     const Matrix& weight, float epsilon) {
  run_forward<false>("rmsnorm_forward", stream, y, nullptr, rstd, x, weight.cols, weight.data,
                     nullptr, epsilon);
}

}  // namespace strata::ops::cuda

// What the kernels of norms are made of: the threads that share a row, and sums of columns.
#pragma once

#include "kernels/ops/cuda/pieces.h"

namespace strata::ops::cuda {

inline constexpr int kNormThreads = 256;  // of a block
inline constexpr std::int64_t kWarpSums = kNormThreads / kWarpThreads;

// The threads that share a row: 2^n lanes of a warp, or the block.
struct Team {
  int threads;

  // Up to four pieces for each lane of a warp, then the block.
  static Team for_pieces(std::int64_t pieces) {
    if (pieces > 4 * kWarpThreads) return {kNormThreads};
    int threads = 1;
    while (threads < kWarpThreads && threads < pieces) threads *= 2;
    return {threads};
  }

  __host__ __device__ int in_block() const { return kNormThreads / threads; }
  __device__ int index() const { return thread_index() / threads; }
  __device__ int member() const { return thread_index() & (threads - 1); }

  // Every member gets the sums of all members' values: lanes by halves, then warps in order. All
  // threads of the block call it. `warp_sums`: kCount for each warp.
  template <int kCount>
  __device__ void add_up(float (&values)[kCount], const SharedArray<float>& warp_sums) const {
    const int lanes_max = threads < kWarpThreads ? threads : kWarpThreads;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      for (int lanes = lanes_max / 2; lanes > 0; lanes /= 2) {
        values[k] = add_rn(values[k], shuffle_xor(values[k], lanes));
      }
    }
    if (threads <= kWarpThreads) return;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (lane_index() == 0) warp_sums[warp_index() * kCount + k] = values[k];
    }
    sync_threads();
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      values[k] = 0;
      for (int warp = 0; warp < kNormThreads / kWarpThreads; ++warp) {
        values[k] = add_rn(values[k], warp_sums[warp * kCount + k]);
      }
    }
    sync_threads();
  }
};

// Rows are normalised in groups of `width` columns, numbered row by row.
struct Groups {
  std::int64_t count;
  std::int64_t width;
  std::uint32_t in_row;
  bool vectors;  // all operands allow them
  Team team;

  template <int kColumns>
  static Groups of(const Matrix& x, std::int64_t width, bool vectors) {
    const std::int64_t in_row = x.cols / width;
    STRATA_CHECK(x.rows * in_row <= INT32_MAX, "a norm of {} groups", x.rows * in_row);
    return {x.rows * in_row, width, static_cast<std::uint32_t>(in_row),
            vectors && (in_row == 1 || width % kColumns == 0),
            Team::for_pieces(ceil_div(width, kColumns))};
  }
  template <typename T>
  __device__ T* at(const Rows<T>& rows, std::int64_t group) const {
    const auto index = static_cast<std::uint32_t>(group);
    return rows.at(index / in_row, index % in_row * width);
  }
};

// Sums over the rows of a block, one for each column: each team's, in shared memory, laid out so
// that neighbouring threads use neighbouring banks. Rows too wide for that have a block as team,
// and are summed where the results go.
template <int kColumns>
class ColumnSums {
 public:
  __host__ __device__ static std::int64_t shared_elements(const Team& team, std::int64_t width) {
    return team.in_block() * ceil_div(width, kColumns) * kColumns;
  }

  __device__ ColumnSums(const Team& team, SharedMemory& shared, bool in_shared, std::int64_t width,
                        float* result)
      : team_(team),
        sums_(shared.take<float>(in_shared ? shared_elements(team, width) : 0)),
        in_shared_(in_shared),
        width_(width),
        pieces_(ceil_div(width, kColumns)),
        result_(result) {
    for (std::int64_t piece = team.member(); piece < pieces_; piece += team.threads) {
      for (int i = 0; i < kColumns; ++i) {
        if (in_shared) {
          sums_[at(team.index(), piece, i)] = 0;
        } else if (piece * kColumns + i < width) {
          store(result + piece * kColumns + i, 0.0f);
        }
      }
    }
  }

  // Pieces are their thread's alone.
  __device__ void add(std::int64_t piece, const Piece<kColumns>& values) const {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (in_shared_) {
        float& sum = sums_[at(team_.index(), piece, i)];
        sum = add_rn(sum, values.at[i]);
      } else if (piece * kColumns + i < width_) {
        float* const sum = result_ + piece * kColumns + i;
        store(sum, add_rn(load(sum), values.at[i]));
      }
    }
  }

  // Teams in order; after a barrier.
  __device__ void finish() const {
    if (!in_shared_) return;
    for (std::int64_t column = thread_index(); column < width_; column += kNormThreads) {
      float sum = 0;
      for (int team = 0; team < team_.in_block(); ++team) {
        sum = add_rn(sum, sums_[at(team, column / kColumns, static_cast<int>(column % kColumns))]);
      }
      store(result_ + column, sum);
    }
  }

 private:
  __device__ std::int64_t at(int team, std::int64_t piece, int i) const {
    return (team * kColumns + i) * pieces_ + piece;
  }

  Team team_;
  SharedArray<float> sums_;
  bool in_shared_;
  std::int64_t width_;
  std::int64_t pieces_;
  float* result_;  // (width)
};

}  // namespace strata::ops::cuda

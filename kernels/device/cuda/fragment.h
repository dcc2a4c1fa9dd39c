// Products of small matrices by a warp: a tile in shared memory, fragments of it in the registers
// of a warp, and sum += left · right, in f32. For bf16 on tensor cores (mma.sync), for f32 with
// multiply-adds.
//
//   SharedTile      rows × kCols of T in shared memory, moved 16 bytes at a time
//   LeftFragment    16 × kDepth<T>
//   RightFragment   kDepth<T> × 16
//   SumFragment     16 × 16 f32, of which a lane holds eight entries: row(i), column(i)
//
// Every lane of a warp calls each function here, with the same arguments.
#pragma once

#include "kernels/device/cuda/kernel_code.h"

namespace strata::cuda {

inline constexpr int kFragment = 16;  // rows or columns of one

template <typename T>
inline constexpr int kDepth = 4;
template <>
inline constexpr int kDepth<bf16> = 16;

// Rows of kCols elements. Fragments are loaded from the same vector of eight rows at a time, the
// first a multiple of 8, and eight vectors are served at once if their addresses differ modulo 128
// bytes. So each of these rows has its vectors in another order: i ^ row % 8, or where two rows of
// four make 128 bytes, i ^ row / 2 % 4. In f32, whose many addresses would then not fit registers,
// a vector that nobody uses follows each row instead.
template <typename T, int kCols>
class SharedTile {
 public:
  static constexpr int kElements = Vector<T>::kElements;
  static constexpr int kVectors = kCols / kElements;  // of a row
  static_assert(kCols % kElements == 0 && (kVectors == 4 || kVectors % 8 == 0));

  __device__ SharedTile(SharedMemory& memory, int rows)
      : vectors_(memory.template take<Vector<T>>(std::int64_t{rows} * kStride)) {}
  static constexpr std::int64_t bytes(int rows) {
    return std::int64_t{rows} * kStride * kVectorBytes;
  }

  __device__ Vector<T>& vector(int row, int index) const {
    if constexpr (!kPermuted) return vectors_[row * kStride + index];
    const int permutation = kVectors == 4 ? row >> 1 & 3 : row & 7;
    return vectors_[row * kStride + (index ^ permutation)];
  }
  __device__ T& element(int row, int col) const {
    return vector(row, col / kElements).at[col % kElements];
  }

 private:
  static constexpr bool kPermuted = std::is_same_v<T, bf16>;
  static constexpr int kStride = kPermuted ? kVectors : kVectors + 1;
  SharedArray<Vector<T>> vectors_;
};

struct SumFragment {
  static constexpr int kEntries = 8;
  float at[kEntries] = {};
  // Where a lane's entry i lies: two rows, and in each four columns.
  __device__ static int row(int i) { return lane_index() / 4 + 8 * (i / 2 % 2); }
  __device__ static int column(int i) { return 2 * (lane_index() % 4) + i % 2 + 8 * (i / 4); }
};

template <typename T>
struct LeftFragment {
  float at[2][kDepth<T>];  // rows row(0), row(2)
};
template <typename T>
struct RightFragment {
  float at[4][kDepth<T>];  // columns column(0), column(1), column(4), column(5)
};

// Entries (row + i, col + k) of a tile, as (i, k).
template <typename T, int kCols>
__device__ inline LeftFragment<T> load_left(const SharedTile<T, kCols>& tile, int row, int col) {
  LeftFragment<T> left;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int v = 0; v < kDepth<T> / Vector<T>::kElements; ++v) {
      const Vector<T> vector =
          tile.vector(row + SumFragment::row(2 * i), col / Vector<T>::kElements + v);
#pragma unroll
      for (int k = 0; k < Vector<T>::kElements; ++k) {
        left.at[i][v * Vector<T>::kElements + k] = widen(vector.at[k]);
      }
    }
  }
  return left;
}

// Entries (row + j, col + k) of a tile, as (k, j): the tile's rows are columns here.
template <typename T, int kCols>
__device__ inline RightFragment<T> load_right_of_rows(const SharedTile<T, kCols>& tile, int row,
                                                      int col) {
  RightFragment<T> right;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#pragma unroll
    for (int v = 0; v < kDepth<T> / Vector<T>::kElements; ++v) {
      const Vector<T> vector =
          tile.vector(row + SumFragment::column(j % 2 + j / 2 * 4), col / Vector<T>::kElements + v);
#pragma unroll
      for (int k = 0; k < Vector<T>::kElements; ++k) {
        right.at[j][v * Vector<T>::kElements + k] = widen(vector.at[k]);
      }
    }
  }
  return right;
}

// Entries (row + k, col + j) of a tile, as (k, j).
template <typename T, int kCols>
__device__ inline RightFragment<T> load_right(const SharedTile<T, kCols>& tile, int row, int col) {
  RightFragment<T> right;
#pragma unroll
  for (int k = 0; k < kDepth<T>; ++k) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = col + SumFragment::column(j % 2 + j / 2 * 4);
      right.at[j][k] = widen(tile.element(row + k, column));
    }
  }
  return right;
}

template <typename T>
__device__ inline void multiply_add(SumFragment& sum, const LeftFragment<T>& left,
                                    const RightFragment<T>& right) {
#pragma unroll
  for (int k = 0; k < kDepth<T>; ++k) {
#pragma unroll
    for (int i = 0; i < SumFragment::kEntries; ++i) {
      sum.at[i] += left.at[i / 2 % 2][k] * right.at[i % 2 + i / 4 * 2][k];
    }
  }
}

// Columns col … col + kDepth<T> - 1 of a sum, rounded to T, as a left factor. Each pair of a row's
// columns is another lane's.
template <typename T>
__device__ inline LeftFragment<T> left_of(const SumFragment& sum, int col) {
  LeftFragment<T> left;
#pragma unroll
  for (int pair = 0; pair < kDepth<T> / 2; ++pair) {
    const int first = col + 2 * pair;
    const int lane = lane_index() / 4 * 4 + first % 8 / 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float* const entries = &sum.at[first / 8 * 4 + 2 * i];
      const std::uint64_t bits =
          shuffle(std::uint64_t{bits_of(entries[1])} << 32 | bits_of(entries[0]), lane);
      left.at[i][2 * pair] = widen(narrow<T>(float_of(static_cast<std::uint32_t>(bits))));
      left.at[i][2 * pair + 1] = widen(narrow<T>(float_of(static_cast<std::uint32_t>(bits >> 32))));
    }
  }
  return left;
}

}  // namespace strata::cuda

#ifdef STRATA_CUDA_SIM
#include "cuda_sim/fragment.h"
#else
#include "kernels/device/cuda/fragment_mma.h"
#endif

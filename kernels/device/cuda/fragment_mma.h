// fragment.h's bf16 on tensor cores: ldmatrix and mma.sync.m16n8k16, whose layout of registers is
// the one that fragment.h states for SumFragment (PTX ISA, "Matrix Fragments for mma.m16n8k16").
#pragma once

#include "kernels/device/cuda/fragment.h"

namespace strata::cuda {

template <>
struct LeftFragment<bf16> {
  std::uint32_t pairs[4];  // rows row(0), row(2), then eight columns on
};
template <>
struct RightFragment<bf16> {
  std::uint32_t pairs[4];  // eight columns: depth 0 … 7 and 8 … 15, then the other eight
};

// Four 8 × 8 matrices; lane l gives the address of row l % 8 of matrix l / 8.
template <int kCols>
__device__ inline void load_matrices(std::uint32_t (&pairs)[4], const SharedTile<bf16, kCols>& tile,
                                     int row, int vector) {
  const auto address =
      static_cast<std::uint32_t>(__cvta_generic_to_shared(&tile.vector(row, vector)));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
               : "r"(address)
               : "memory");
}
template <int kCols>
__device__ inline void load_matrices_transposed(std::uint32_t (&pairs)[4],
                                                const SharedTile<bf16, kCols>& tile, int row,
                                                int vector) {
  const auto address =
      static_cast<std::uint32_t>(__cvta_generic_to_shared(&tile.vector(row, vector)));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
               : "r"(address)
               : "memory");
}

template <int kCols>
__device__ inline LeftFragment<bf16> load_left(const SharedTile<bf16, kCols>& tile, int row,
                                               int col) {
  const int lane = lane_index();
  LeftFragment<bf16> left;
  load_matrices(left.pairs, tile, row + lane % 16, col / 8 + lane / 16);
  return left;
}

template <int kCols>
__device__ inline RightFragment<bf16> load_right_of_rows(const SharedTile<bf16, kCols>& tile,
                                                         int row, int col) {
  const int lane = lane_index();
  RightFragment<bf16> right;
  load_matrices(right.pairs, tile, row + lane % 8 + lane / 16 * 8, col / 8 + lane / 8 % 2);
  return right;
}

template <int kCols>
__device__ inline RightFragment<bf16> load_right(const SharedTile<bf16, kCols>& tile, int row,
                                                 int col) {
  const int lane = lane_index();
  RightFragment<bf16> right;
  load_matrices_transposed(right.pairs, tile, row + lane % 16, col / 8 + lane / 16);
  return right;
}

__device__ inline void multiply_add_half(float* sum, const LeftFragment<bf16>& left,
                                         const std::uint32_t* right) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left.pairs[0]), "r"(left.pairs[1]), "r"(left.pairs[2]), "r"(left.pairs[3]),
        "r"(right[0]), "r"(right[1]));
}
template <>
__device__ inline void multiply_add<bf16>(SumFragment& sum, const LeftFragment<bf16>& left,
                                          const RightFragment<bf16>& right) {
  multiply_add_half(&sum.at[0], left, &right.pairs[0]);
  multiply_add_half(&sum.at[4], left, &right.pairs[2]);
}

// Rounded to nearest even; the lower half of the result is `low`.
__device__ inline std::uint32_t packed_bf16(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
template <>
__device__ inline LeftFragment<bf16> left_of<bf16>(const SumFragment& sum, int /*col*/) {
  LeftFragment<bf16> left;
#pragma unroll
  for (int i = 0; i < 4; ++i) left.pairs[i] = packed_bf16(sum.at[2 * i], sum.at[2 * i + 1]);
  return left;
}

}  // namespace strata::cuda

// The simulated device's side of kernels/device/cuda/fragment.h, which includes it: the lanes
// exchange a sum at once.
#pragma once

#include "cuda_sim/block.h"
#include "kernels/device/cuda/fragment.h"

namespace strata::cuda {

template <>
inline LeftFragment<bf16> left_of<bf16>(const SumFragment& sum, int /*col*/) {
  const auto sums = cuda_sim::current_block->exchange(sum, {"left_of", __FILE__, __LINE__});
  const int first_lane = lane_index() / 4 * 4;  // of those that share its rows
  LeftFragment<bf16> left;
  for (int lane = 0; lane < 4; ++lane) {
    const SumFragment of = sums[first_lane + lane];
    for (int i = 0; i < SumFragment::kEntries; ++i) {
      left.at[i / 2 % 2][2 * lane + i % 2 + 8 * (i / 4)] = widen(narrow<bf16>(of.at[i]));
    }
  }
  return left;
}

}  // namespace strata::cuda

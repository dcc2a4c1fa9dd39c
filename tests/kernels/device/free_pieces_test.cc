#include "kernels/device/free_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/base/error.h"

namespace strata {
namespace {

TEST(FreePieces, NeighboursMergeWhateverTheirOrder) {
  FreePieces free(400);
  std::array<int, 4> order{};
  std::iota(order.begin(), order.end(), 0);
  do {
    for (const int i : {0, 1, 2, 3}) ASSERT_EQ(free.take(100), 100 * i);
    for (const int i : order) free.give_back(100 * i, 100);
    ASSERT_EQ(free.take(400), 0);
    free.give_back(0, 400);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(FreePieces, WhatIsFreeInPiecesIsRefusedAsSuch) {
  FreePieces free(400);
  EXPECT_EQ(free.take(100), 0);
  EXPECT_EQ(free.take(200), 100);
  free.give_back(0, 100);
  EXPECT_THROW((void)free.take(150), OutOfBudget);
  EXPECT_EQ(free.take(50), 0) << "a hole is used from its beginning";
  EXPECT_EQ(free.take(50), 50);
  EXPECT_EQ(free.take(100), 300);
  EXPECT_THROW((void)free.take(1), OutOfBudget);
}

}  // namespace
}  // namespace strata

#include "kernels/base/inplace_function.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace strata {
namespace {

using Function = InplaceFunction<64>;

TEST(InplaceFunction, CallsWhatItHolds) {
  int calls = 0;
  Function function = [&calls] { ++calls; };
  function();
  function();
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(function);
  EXPECT_FALSE(Function());
}

TEST(InplaceFunction, MovesItsStateAlong) {
  int seen = 0;
  Function first = [&seen, count = std::make_unique<int>(0)] { seen = ++*count; };
  first();
  Function second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): emptied is its documented state
  second();
  EXPECT_EQ(seen, 2);
}

TEST(InplaceFunction, DestroysCapturesExactlyOnce) {
  const auto witness = std::make_shared<int>(0);
  {
    Function first = [witness] {};
    Function second = std::move(first);
    EXPECT_EQ(witness.use_count(), 2);
    second = Function([] {});
    EXPECT_EQ(witness.use_count(), 1) << "assigning over destroys";
    Function third = [witness] {};
    EXPECT_EQ(witness.use_count(), 2);
  }
  EXPECT_EQ(witness.use_count(), 1);
}

}  // namespace
}  // namespace strata

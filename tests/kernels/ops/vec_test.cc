// The vector functions as the baseline build compiles them; the tests of the ops show that the
// other instruction sets give the same bits.
#define STRATA_ISA baseline_test
#include "kernels/ops/cpu/isa/vec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace strata::ops::cpu::baseline_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float exp_of(float x) {
  float lanes[kLanes];
  store(lanes, exp(broadcast(x)));
  return lanes[0];
}

// An ulp is the spacing of f32 at the exact result.
TEST(Vec, ExpIsWithinOneUlp) {
  double worst = 0;
  for (double x = -87.33; x < 88.72; x += 0.00037) {
    const auto argument = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(argument));
    const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(exp_of(argument) - exact) / ulp);
  }
  EXPECT_LE(worst, 1.0);
}

TEST(Vec, ExpAtTheEndsOfItsRange) {
  EXPECT_EQ(exp_of(-kInfinity), 0.0f);
  EXPECT_EQ(exp_of(-88.0f), 0.0f);
  EXPECT_EQ(exp_of(0.0f), 1.0f);
  EXPECT_EQ(exp_of(-0.0f), 1.0f);
  EXPECT_NEAR(exp_of(88.7f), std::exp(88.7f), std::exp(88.7f) * 1e-6);
  EXPECT_EQ(exp_of(89.0f), kInfinity);
  EXPECT_EQ(exp_of(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(exp_of(std::numeric_limits<float>::quiet_NaN())));
}

// Element i is 1 and all others 0, so any element that is lost or counted twice shows.
TEST(Vec, SumCountsEveryElementOnce) {
  for (std::int64_t elements : {1, 7, 16, 17, 40}) {
    for (std::int64_t one = 0; one < elements; ++one) {
      std::vector<float> values(static_cast<std::size_t>(elements), 0.0f);
      values[static_cast<std::size_t>(one)] = 1.0f;
      F32x16 total = broadcast(0);
      for_each_vector(elements, [&](std::int64_t i, auto lanes) {
        total = total + load(values.data() + i, lanes);
      });
      EXPECT_EQ(sum(total), 1.0f) << one << " of " << elements;
    }
  }
}

// 2^24 + 1 rounds back to 2^24: lane 0 meets lane 8 first, so the order of the tree is visible.
TEST(Vec, SumAddsLanesInTheDocumentedTree) {
  float lanes[kLanes] = {};
  lanes[0] = 16777216.0f;
  lanes[4] = 1.0f;
  lanes[12] = 1.0f;
  EXPECT_EQ(sum(load(lanes)), 16777218.0f);  // 4 + 12 first
  lanes[12] = 0.0f;
  lanes[8] = 1.0f;
  EXPECT_EQ(sum(load(lanes)), 16777216.0f);  // 0 + 8, then 0 + 4: both rounded away
}

TEST(Vec, LargestLooksAtEveryLane) {
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    float lanes[kLanes];
    for (float& value : lanes) value = -kInfinity;
    lanes[lane] = -3.0f;
    EXPECT_EQ(largest(load(lanes)), -3.0f);
  }
}

}  // namespace
}  // namespace strata::ops::cpu::baseline_test

// Runs of plans: their median, how far apart they are, and when there were enough of them.
#include "engine/tune/measured_steps.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata::test {
namespace {

using engine::enough_rounds;
using engine::MeasuredSteps;

MeasuredSteps steps(const std::vector<std::vector<double>>& runs) {
  MeasuredSteps measured;
  for (const std::vector<double>& run : runs) measured.add_run(run);
  return measured;
}

TEST(MeasuredSteps, TheMedianOfAnEvenNumberIsTheirMean) {
  EXPECT_DOUBLE_EQ(steps({{4, 1, 3, 2}}).median_s(), 2.5);
  EXPECT_EQ(MeasuredSteps{}.median_s(), 0);
}

TEST(MeasuredSteps, RunsDifferByTheirMediansNotByTheirSteps) {
  const MeasuredSteps measured = steps({{1, 2, 90}, {2, 3, 0.1}, {2.5, 2.5, 2.5}});
  EXPECT_DOUBLE_EQ(measured.spread(), 0.25);
  EXPECT_EQ(MeasuredSteps{}.spread(), 0);
  EXPECT_DOUBLE_EQ(engine::widest_spread(std::vector{measured, steps({{1}, {2}})}), 1);
}

TEST(LargestChange, IsThatOfTheValueThatChangedMost) {
  const std::vector<double> before = {1, 2, 0, 4};
  EXPECT_DOUBLE_EQ(engine::largest_change(before, std::vector<double>{1.25, 1.25, 9, 0}), 0.375);
  EXPECT_EQ(engine::largest_change(before, before), 0);
  EXPECT_GT(engine::largest_change({}, before), 1e9);
}

TEST(EnoughRounds, TwoWhereTheSecondChangesLittle) {
  const std::vector<MeasuredSteps> plans = {steps({{1, 1}, {1.04, 1}}), steps({{2}, {2}})};
  EXPECT_FALSE(enough_rounds(0, std::vector<MeasuredSteps>(2), 0));
  EXPECT_FALSE(enough_rounds(1, plans, 0));
  EXPECT_TRUE(enough_rounds(2, plans, 0.02));
}

TEST(EnoughRounds, MoreButNotManyWhereMediansMove) {
  const std::vector<MeasuredSteps> plans = {steps({{1}, {1}}), steps({{1}, {1.1}})};
  EXPECT_FALSE(enough_rounds(2, plans, 0.04));
  EXPECT_TRUE(enough_rounds(3, plans, 0.02));
  EXPECT_FALSE(enough_rounds(5, plans, 1));
  EXPECT_TRUE(enough_rounds(6, plans, 1));
}

TEST(EnoughRounds, LongTrainingIsEnough) {
  EXPECT_FALSE(enough_rounds(2, std::vector{steps({{7, 7}, {7, 8}})}, 1));
  EXPECT_TRUE(enough_rounds(2, std::vector{steps({{1}, {1}}), steps({{7, 7}, {8, 8}})}, 1));
}

}  // namespace
}  // namespace strata::test

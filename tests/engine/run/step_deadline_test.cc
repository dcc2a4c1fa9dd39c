// When a step is given up after a stop signal, by times that follow from --stop-within.
#include "engine/run/step_deadline.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace strata::engine {
namespace {

using std::chrono::seconds;
using Time = StepDeadline::Time;

Time at(int s) { return Time(seconds(s)); }

// 20 s from the signal on; steps of these lengths, one after the other, the last ending at 100.
StepDeadline after_steps(std::initializer_list<int> lengths_s) {
  StepDeadline deadline(seconds(20));
  for (const int length_s : lengths_s) {
    deadline.step_begins(at(100 - length_s));
    deadline.step_ended(at(100));
  }
  return deadline;
}

TEST(StepDeadline, NothingIsGivenUpUnasked) {
  StepDeadline deadline = after_steps({50});
  EXPECT_EQ(deadline.give_up_at(), std::nullopt);
  deadline.step_begins(at(100));
  EXPECT_EQ(deadline.give_up_at(), std::nullopt);
}

TEST(StepDeadline, AStepOfUnknownLengthHasTheWholeTime) {
  StepDeadline deadline = after_steps({});
  deadline.step_begins(at(100));
  deadline.ask(at(130));
  EXPECT_EQ(deadline.give_up_at(), at(150));
}

// Asked at 105, so that steps may go on until 125.
TEST(StepDeadline, AStepThatCannotEndInTimeIsGivenUpAtOnce) {
  for (const auto& [length_s, expected] : {std::pair(25, at(125)), std::pair(26, at(105))}) {
    StepDeadline deadline = after_steps({length_s});
    deadline.step_begins(at(100));
    deadline.ask(at(105));
    EXPECT_EQ(deadline.give_up_at(), expected) << length_s;
  }
}

TEST(StepDeadline, TheEstimateIsTheMedianOfRecentSteps) {
  // Of 15, eight are short enough; an old one does not count.
  StepDeadline deadline = after_steps({90, 60, 60, 60, 60, 60, 60, 60, 5, 5, 5, 5, 5, 5, 5, 5});
  deadline.step_begins(at(100));
  deadline.ask(at(100));
  EXPECT_EQ(deadline.give_up_at(), at(120));
  // And now of 15 seven are.
  deadline = after_steps({5, 60, 60, 60, 60, 60, 60, 60, 60, 5, 5, 5, 5, 5, 5, 5});
  deadline.step_begins(at(100));
  deadline.ask(at(100));
  EXPECT_EQ(deadline.give_up_at(), at(100));
}

TEST(StepDeadline, BetweenStepsThereIsNothingToEstimate) {
  StepDeadline deadline = after_steps({50});
  deadline.ask(at(100));
  EXPECT_FALSE(deadline.in_step());
  EXPECT_EQ(deadline.give_up_at(), at(120));
  deadline.step_begins(at(101));
  EXPECT_TRUE(deadline.in_step());
  EXPECT_EQ(deadline.give_up_at(), at(100));
}

}  // namespace
}  // namespace strata::engine

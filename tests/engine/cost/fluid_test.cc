// The simulator against times worked out by hand.
#include "engine/cost/fluid.h"

#include <gtest/gtest.h>

#include "kernels/base/error.h"

namespace strata::engine {
namespace {

using Task = Fluid::Task;
constexpr Task kBeginning = Fluid::kBeginning;

// Times are sums of a few quotients of small numbers.
constexpr double kRounding = 1e-9;

std::vector<double> times(const Fluid& fluid, const std::vector<Task>& at) {
  std::vector<double> seconds;
  for (const Fluid::Mark& mark : fluid.run(at)) seconds.push_back(mark.time_s);
  return seconds;
}

TEST(Fluid, TasksBehindEachOtherAddUp) {
  Fluid fluid;
  const auto server = fluid.add_shared();
  const Task a = fluid.add_shared_task(server, 2, 1, {kBeginning});
  const Task b = fluid.add_shared_task(server, 3, 1, {a});
  EXPECT_EQ(times(fluid, {b, a}), (std::vector<double>{5, 2}));
}

TEST(Fluid, AWidthCapsWhatATaskGets) {
  Fluid fluid;
  const auto server = fluid.add_shared();
  const Task narrow = fluid.add_shared_task(server, 1, 0.25, {});
  const std::vector<Fluid::Mark> marks = fluid.run(std::vector{narrow});
  EXPECT_NEAR(marks[0].time_s, 4, kRounding);
  EXPECT_NEAR(marks[0].busy_s[0], 1, kRounding);
}

// Widths 1 and 1/2 get 2/3 and 1/3. The narrow one's 1 second takes 3; by then the wide one has 2
// of its 4 and goes on alone for 2 more.
TEST(Fluid, WidthsAboveOneShareInProportion) {
  Fluid fluid;
  const auto server = fluid.add_shared();
  const Task wide = fluid.add_shared_task(server, 4, 1, {});
  const Task narrow = fluid.add_shared_task(server, 1, 0.5, {});
  const std::vector<double> at = times(fluid, {wide, narrow});
  EXPECT_NEAR(at[0], 5, kRounding);
  EXPECT_NEAR(at[1], 3, kRounding);
}

// Two of each at half and a quarter of their rates: the first queue's 1 + 1 seconds would take 4
// together, the second's 1 + 0.25 take 4 + 1. At 4 the first is empty, and of the second's last
// task all is left, which goes at full rate: 0.25 seconds.
TEST(Fluid, QueuesServeInOrderAndSlowEachOther) {
  Fluid fluid;
  const auto drive = fluid.add_queues(0.5, 0.25);
  using Queue = Fluid::Queue;
  const Task read1 = fluid.add_queued_task(drive, Queue::first, 1, {});
  const Task read2 = fluid.add_queued_task(drive, Queue::first, 1, {});
  const Task write1 = fluid.add_queued_task(drive, Queue::second, 1, {});
  const Task write2 = fluid.add_queued_task(drive, Queue::second, 0.25, {});
  const std::vector<Fluid::Mark> marks = fluid.run(std::vector{read1, read2, write1, write2});
  EXPECT_NEAR(marks[0].time_s, 2, kRounding);
  EXPECT_NEAR(marks[1].time_s, 4, kRounding);
  EXPECT_NEAR(marks[2].time_s, 4, kRounding);
  EXPECT_NEAR(marks[3].time_s, 4.25, kRounding);
  EXPECT_NEAR(marks[3].busy_s[0], 4.25, kRounding);  // while either is busy
}

// A pipeline of n pieces through two servers: the slower one works without pause but for the first
// piece's time in the other.
TEST(Fluid, APipelineTakesItsSlowestStageAndTheFilling) {
  Fluid fluid;
  const auto read = fluid.add_queues(1, 1);
  const auto cores = fluid.add_shared();
  Task computed = kBeginning;
  for (int piece = 0; piece < 10; ++piece) {
    const Task arrived = fluid.add_queued_task(read, Fluid::Queue::first, 1, {});
    computed = fluid.add_shared_task(cores, 3, 1, {arrived, computed});
  }
  EXPECT_NEAR(times(fluid, {computed})[0], 1 + 10 * 3, kRounding);
}

TEST(Fluid, AMeetingPointTakesNoTime) {
  Fluid fluid;
  const auto server = fluid.add_shared();
  const Task a = fluid.add_shared_task(server, 1, 0.5, {});
  const Task b = fluid.add_shared_task(server, 2, 0.5, {});
  const Task both = fluid.add({a, b});
  const Task none = fluid.add({});
  EXPECT_EQ(times(fluid, {both, none}), (std::vector<double>{4, 0}));
}

TEST(FluidDeath, ATaskWaitsForEarlierOnes) {
  Fluid fluid;
  EXPECT_DEATH(fluid.add({0}), "task 0 waits for 0");
}

}  // namespace
}  // namespace strata::engine

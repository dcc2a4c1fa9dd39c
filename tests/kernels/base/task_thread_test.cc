#include "kernels/base/task_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

namespace strata {
namespace {

TEST(TaskThread, RunsTasksInOrderOnOneOtherThread) {
  FailureLatch failure;
  std::vector<int> order;
  bool elsewhere = false;
  {
    TaskThread thread("tasks", failure, 4);
    for (int i = 0; i < 100; ++i) thread.post([&order, i] { order.push_back(i); });
    thread.post([&] { elsewhere = thread.on_this_thread(); });
    EXPECT_FALSE(thread.on_this_thread());
  }  // destruction runs what is queued
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_TRUE(elsewhere);
}

TEST(TaskThread, PostBlocksWhileTheRingIsFull) {
  FailureLatch failure;
  std::promise<void> gate;
  std::atomic<int> posted{0};
  TaskThread thread("tasks", failure, 2);
  thread.post([opened = gate.get_future().share()] { opened.wait(); });
  std::thread poster([&] {
    for (int i = 0; i < 3; ++i) {
      thread.post([] {});
      ++posted;
    }
  });
  while (posted < 1) std::this_thread::yield();
  // The running task keeps its slot, one more is queued: the ring of two is full until the gate
  // opens, however long that takes.
  EXPECT_EQ(posted, 1);
  gate.set_value();
  poster.join();
  EXPECT_EQ(posted, 3);
}

TEST(TaskThread, WaitIdleSeesEverythingPostedBefore) {
  FailureLatch failure;
  TaskThread thread("tasks", failure, 8);
  int done = 0;
  for (int round = 0; round < 200; ++round) {
    thread.post([&done] { ++done; });
    thread.wait_idle();
    ASSERT_EQ(done, round + 1);
  }
}

TEST(TaskThread, AFailureDropsTasksButRunsWhatOthersWaitFor) {
  FailureLatch failure;
  TaskThread thread("tasks", failure, 8);
  bool skipped_ran = false;
  bool signal_ran = false;
  thread.post([] { throw std::runtime_error("first"); });
  thread.post([&] { skipped_ran = true; });
  thread.post([&] { signal_ran = true; }, TaskThread::Drain::run);
  thread.wait_idle();
  EXPECT_FALSE(skipped_ran);
  EXPECT_TRUE(signal_ran);
  EXPECT_TRUE(failure.failed());
  EXPECT_THROW(failure.check(), std::runtime_error);
}

TEST(TaskThread, DrainsWhenAnotherThreadFailed) {
  FailureLatch failure;
  TaskThread thread("tasks", failure, 8);
  failure.set(std::make_exception_ptr(std::runtime_error("elsewhere")));
  bool ran = false;
  thread.post([&] { ran = true; });
  thread.wait_idle();
  EXPECT_FALSE(ran);
}

TEST(FailureLatch, KeepsTheFirstFailure) {
  FailureLatch failure;
  EXPECT_NO_THROW(failure.check());
  failure.set(std::make_exception_ptr(std::runtime_error("first")));
  failure.set(std::make_exception_ptr(std::logic_error("second")));
  EXPECT_THROW(failure.check(), std::runtime_error);
}

}  // namespace
}  // namespace strata

#include <gtest/gtest.h>

#include <thread>

#include "io/storage.h"
#include "kernels/base/error.h"
#include "tests/io/failure_of.h"

namespace strata::io {
namespace {

std::exception_ptr error_saying(const char* text) { return std::make_exception_ptr(IoError(text)); }

TEST(IoGroup, IsIdleAtFirst) {
  IoGroup group;
  EXPECT_FALSE(group.pending());
  group.wait();
}

TEST(IoGroup, IsPendingUntilEveryRequestCompleted) {
  IoGroup group;
  group.add();
  group.add(2);
  group.complete(nullptr);
  group.complete(nullptr);
  EXPECT_TRUE(group.pending());
  group.complete(nullptr);
  EXPECT_FALSE(group.pending());
}

TEST(IoGroup, WaitThrowsTheFirstFailureOnce) {
  IoGroup group;
  for (int i = 0; i < 3; ++i) group.add();
  group.complete(nullptr);
  group.complete(error_saying("first"));
  group.complete(error_saying("second"));
  EXPECT_EQ(failure_of(group), "first");
  EXPECT_EQ(failure_of(group), "");
}

TEST(IoGroup, CanBeUsedAgainAfterAFailure) {
  IoGroup group;
  group.add();
  group.complete(error_saying("old"));
  EXPECT_EQ(failure_of(group), "old");
  group.add();
  group.complete(error_saying("new"));
  EXPECT_EQ(failure_of(group), "new");
}

TEST(IoGroup, WaitBlocksForAnotherThread) {
  IoGroup group;
  int value = 0;
  group.add();
  std::thread completer([&] {
    value = 1;
    group.complete(nullptr);
  });
  group.wait();
  EXPECT_EQ(value, 1);
  completer.join();
}

TEST(IoGroup, DestructionWaitsAndDropsTheFailure) {
  int value = 0;
  std::thread completer;
  {
    IoGroup group;
    group.add();
    completer = std::thread([&] {
      value = 1;
      group.complete(error_saying("nobody waits for it"));
    });
  }
  EXPECT_EQ(value, 1);
  completer.join();
}

TEST(IoGroup, AParentCountsWhatItsGroupsCount) {
  IoGroup parent;
  IoGroup first;
  IoGroup second;
  first.report_to(parent);
  second.report_to(parent);
  EXPECT_TRUE(first.reports_to(parent));
  EXPECT_FALSE(parent.reports_to(first));
  first.add(2);
  second.add();
  first.complete(nullptr);
  first.complete(nullptr);
  EXPECT_FALSE(first.pending());
  EXPECT_TRUE(parent.pending());
  second.complete(nullptr);
  EXPECT_FALSE(parent.pending());
}

TEST(IoGroup, AFailureIsKeptInTheGroupAndInItsParent) {
  IoGroup parent;
  IoGroup group;
  group.report_to(parent);
  group.add();
  group.complete(error_saying("broken"));
  EXPECT_EQ(failure_of(group), "broken");
  EXPECT_EQ(failure_of(parent), "broken") << "also after the group's waiter had it";
  EXPECT_EQ(failure_of(parent), "");
}

TEST(IoGroup, AParentOutlivesItsGroupsFailure) {
  IoGroup parent;
  {
    IoGroup group;
    group.report_to(parent);
    group.add();
    group.complete(error_saying("broken"));
  }
  EXPECT_EQ(failure_of(parent), "broken");
}

TEST(IoGroupDeathTest, ACompletionTooManyIsAProgrammerError) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  IoGroup group;
  EXPECT_DEATH(group.complete(nullptr), "completed twice");
}

}  // namespace
}  // namespace strata::io

#include "io/directory_locks.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/error.h"
#include "tests/support/temporary_folder.h"

namespace strata::io {
namespace {

using std::chrono::milliseconds;

class DirectoryLocksTest : public testing::Test {
 protected:
  test::TemporaryFolder root_;
  const std::string a_ = root_.make_folder("a");
  const std::string b_ = root_.make_folder("b");
};

std::string failure_of_locking(const std::vector<std::string>& directories) {
  try {
    DirectoryLocks(directories, milliseconds(1));
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

TEST_F(DirectoryLocksTest, OneThatIsHeldIsWaitedForOnlySoLong) {
  std::optional<DirectoryLocks> held(std::in_place, std::vector{b_}, milliseconds(1));
  EXPECT_EQ(failure_of_locking({a_, b_}), "lock " + b_ +
                                              ": another process has been reserving space there "
                                              "for 0.0 s (--io-timeout)");
  EXPECT_EQ(failure_of_locking({a_}), "");
  held.reset();
  EXPECT_EQ(failure_of_locking({a_, b_}), "");
}

TEST_F(DirectoryLocksTest, OneThatComesTwiceIsLockedOnce) {
  EXPECT_EQ(failure_of_locking({a_, b_, a_ + "/../a"}), "");
}

TEST_F(DirectoryLocksTest, OneThatIsMissingIsForOthersToReport) {
  EXPECT_EQ(failure_of_locking({root_.path("missing"), a_}), "");
}

// In whatever order they are given: a thread that had the other's first would wait for ever.
TEST_F(DirectoryLocksTest, TwoHoldersNeverHoldOneEach) {
  const auto lock_often = [](const std::vector<std::string>& directories) {
    for (int i = 0; i < 20; ++i) DirectoryLocks(directories, std::chrono::seconds(60));
  };
  std::thread other([&] { lock_often({b_, a_}); });
  lock_often({a_, b_});
  other.join();
}

}  // namespace
}  // namespace strata::io

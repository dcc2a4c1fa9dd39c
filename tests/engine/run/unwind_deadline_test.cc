#include "engine/run/unwind_deadline.h"

#include <gtest/gtest.h>

#include <memory>

#include "engine/options/exit_code.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

using namespace std::chrono_literals;

void fail(FailureLatch& failure) {
  failure.set(std::make_exception_ptr(ExitError("rank 1 is stuck", kExitResumable)));
}

TEST(UnwindDeadline, EndsAFailedRunThatDoesNotEnd) {
  const auto never_ends = [] {
    const auto comm = comm::make_single_rank_communicator();
    FailureLatch failure;
    const UnwindDeadline deadline(*comm, failure, 1ms);
    fail(failure);
    std::this_thread::sleep_for(1h);
  };
  EXPECT_EXIT(never_ends(), testing::ExitedWithCode(kExitResumable), "rank 1 is stuck");
}

TEST(UnwindDeadline, LeavesARunAloneThatEnds) {
  const auto comm = comm::make_single_rank_communicator();
  FailureLatch failure;
  { const UnwindDeadline unused(*comm, failure, 1ms); }
  const UnwindDeadline deadline(*comm, failure, 1h);
  fail(failure);
}

}  // namespace
}  // namespace strata::engine

// What the stream still runs uses the other members only before they end.
#include "engine/step/compute_guard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "kernels/base/error.h"
#include "tests/support/test_device.h"

namespace strata::engine {
namespace {

struct Watched {
  explicit Watched(bool& seen_done) : seen_done(seen_done) {}
  ~Watched() { seen_done = done; }
  std::atomic<bool> done = false;
  bool& seen_done;
};

struct Pass {
  Pass(Stream& stream, FailureLatch& failure, bool& seen_done)
      : member(seen_done), guard(stream, failure) {
    stream.host_task([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      member.done = true;
    });
  }
  Watched member;
  ComputeGuard guard;
};

struct FailingPass : Pass {
  FailingPass(Stream& stream, FailureLatch& failure, bool& seen_done)
      : Pass(stream, failure, seen_done) {
    throw Error("it fails");
  }
};

TEST(ComputeGuard, WaitsForTheStreamAtItsEnd) {
  testing::TestDevice device;
  FailureLatch failure;
  bool seen_done = false;
  { const Pass pass(device.stream(), failure, seen_done); }
  EXPECT_TRUE(seen_done);
  EXPECT_FALSE(failure.failed());
}

TEST(ComputeGuard, WaitsForTheStreamWhenAConstructorFails) {
  testing::TestDevice device;
  FailureLatch failure;
  bool seen_done = false;
  EXPECT_THROW(FailingPass(device.stream(), failure, seen_done), Error);
  EXPECT_TRUE(seen_done);
  EXPECT_TRUE(failure.failed()) << "whoever waits for the pass has to stop";
}

}  // namespace
}  // namespace strata::engine

#include "offload/verified_reads.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "kernels/base/error.h"
#include "tests/offload/small_machine.h"
#include "tests/support/error_text.h"

namespace strata::offload::testing {
namespace {

constexpr int kUnit = 1;
constexpr std::int64_t kBytes = 12288 * 4;  // of its first moment

struct Written {
  explicit Written(const io::FaultRules& rules)
      : machine(placed(Tier::nvme, Tier::host), rules), buffer(machine.host, "test", kBytes) {
    io::IoGroup group;
    machine.store.write(kUnit, StateKind::moment1, 0, buffer.span(), group);
    group.wait();
  }
  void start() { machine.store.read(kUnit, StateKind::moment1, 0, buffer.span(), reads); }

  SmallMachine machine;
  AlignedBuffer buffer;
  VerifiedReads reads;
};

TEST(VerifiedReads, WaitingForNothingReturns) {
  VerifiedReads reads;
  EXPECT_NO_THROW(reads.wait());
}

TEST(VerifiedReads, SlowReadsAreWaitedForBeforeTheyAreChecked) {
  Written written(kSlow);
  for (int i = 0; i < 20; ++i) {
    written.start();
    EXPECT_NO_THROW(written.reads.wait());
  }
}

TEST(VerifiedReads, ABitFlippedOnTheWayIsReportedAndTheNextReadIsFine) {
  Written written({.seed = 3, .flip_read = 0});
  written.start();
  const auto text = test::error_text<IoError>([&] { written.reads.wait(); });
  EXPECT_TRUE(test::mentions(text, "read a, moment1, elements ")) << text;
  written.start();
  EXPECT_NO_THROW(written.reads.wait());
}

// What did not arrive is not checked: the error is that of the transfer.
TEST(VerifiedReads, AFailedTransferIsReportedAsSuch) {
  Written written({.seed = 3, .fail_request = 1});
  written.start();
  const auto text = test::error_text<IoError>([&] { written.reads.wait(); });
  EXPECT_TRUE(test::mentions(text, "errno 5")) << text;
  written.start();
  EXPECT_NO_THROW(written.reads.wait());
}

TEST(VerifiedReads, ItsEndWaitsForWhatIsInFlight) {
  Written written(kSlow);
  std::optional<VerifiedReads> reads(std::in_place);
  written.machine.store.read(kUnit, StateKind::moment1, 0, written.buffer.span(), *reads);
  reads.reset();  // ThreadSanitizer sees a write to the buffer that nobody waited for
  written.buffer.data()[0] = std::byte{1};
}

TEST(VerifiedReadsDeathTest, MoreReadsThanFitAreAProgrammerError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Written written({});
        for (int i = 0; i <= VerifiedReads::kReadsMax; ++i) written.start();
      },
      "kReadsMax");
}

}  // namespace
}  // namespace strata::offload::testing

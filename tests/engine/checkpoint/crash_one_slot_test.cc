// Crash anywhere in a run without checkpoints: before its first update it begins at step 0, in the
// middle of a step it is refused, and after a clean stop it goes on.
#include <gtest/gtest.h>

#include "tests/engine/checkpoint/crash_fixture.h"

namespace strata::engine::testing {
namespace {

constexpr std::int64_t kStoppedAfter = 3;

class CrashOneSlot : public CrashTest {};

TEST_P(CrashOneSlot, IsRefusedInMidStepAndNeverBefore) {
  int beginnings = 0;
  int refusals = 0;
  int stops = 0;
  for_each_crash([&](std::int64_t at, const std::vector<io::CrashDisk::Image>& images) {
    const Found found = look(images);
    if (!found.refusal.empty()) {
      ++refusals;
      ASSERT_NE(found.refusal.find("in the middle of a step, some time after step 0;"),
                std::string::npos)
          << found.refusal;
      ASSERT_TRUE(ledger_->updates_begin_by(at));
      ASSERT_LT(ledger_->acknowledged_by(at), kStoppedAfter);
    } else if (!found.step) {
      ++beginnings;
      ASSERT_FALSE(ledger_->updates_began_by(at));
      if (beginnings == 1) go_on(images, 0);
    } else {
      ++stops;
      ASSERT_EQ(found.step, kStoppedAfter);
      ASSERT_EQ(ledger_->wanted_by(at), kStoppedAfter);
      ASSERT_TRUE(found.is_expected);
      if (stops == 1) go_on(images, kStoppedAfter);
    }
  });
  EXPECT_GT(beginnings, 0);
  EXPECT_GT(refusals, 0);
  EXPECT_GT(stops, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, CrashOneSlot,
    ::testing::Values(
        CrashCase{.name = "deferred", .commit_every = 0, .stopped_after = kStoppedAfter},
        CrashCase{.name = "in_backward_mixed",
                  .place = "weights=nvme,moments=host,remainder=nvme",
                  .commit_every = 0,
                  .clip_norm = 0,
                  .directories = 3,
                  .stopped_after = kStoppedAfter},
        CrashCase{
            .name = "two_ranks", .commit_every = 0, .ranks = 2, .stopped_after = kStoppedAfter}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::engine::testing

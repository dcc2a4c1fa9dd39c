// Crash anywhere: after every write and flush of a run that commits, what it goes on from is the
// last commit that was acknowledged, or one that was in the making, bit for bit; and it ends where
// it would have ended.
#include <gtest/gtest.h>

#include "tests/engine/checkpoint/crash_fixture.h"

namespace strata::engine::testing {
namespace {

class CrashAnywhere : public CrashTest {};

TEST_P(CrashAnywhere, LosesNothingThatWasAcknowledged) {
  constexpr std::int64_t kTrainedOn = 12;  // crashes that are
  const std::int64_t stride = (events() - ledger_->first_event()) / kTrainedOn;
  std::int64_t next = ledger_->first_event();
  for_each_crash([&](std::int64_t at, const std::vector<io::CrashDisk::Image>& images) {
    const Found found = look(images);
    ASSERT_EQ(found.refusal, "");
    const std::int64_t step = found.step.value_or(0);
    ASSERT_GE(step, ledger_->acknowledged_by(at));
    ASSERT_LE(step, ledger_->wanted_by(at));
    ASSERT_TRUE(found.is_expected) << "step " << step;
    if (at < next) return;
    next += stride;
    go_on(images, step);
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, CrashAnywhere,
    ::testing::Values(CrashCase{.name = "deferred", .commit_every = 2},
                      CrashCase{.name = "deferred_skipping", .skipped_step = 3},
                      CrashCase{.name = "in_backward", .clip_norm = 0, .directories = 3},
                      CrashCase{.name = "in_backward_host",
                                .place = "all=host",
                                .commit_every = 2,
                                .clip_norm = 0,
                                .lr_scale = {"h.0.*=0"}},
                      CrashCase{.name = "deferred_mixed",
                                .place = "weights=host,moments=nvme,remainder=device",
                                .directories = 3,
                                .lr_scale = {"h.0.*=0"}},
                      CrashCase{.name = "in_backward_mixed",
                                .place = "weights=nvme,moments=host,remainder=nvme",
                                .commit_every = 2,
                                .clip_norm = 0},
                      CrashCase{.name = "two_ranks", .ranks = 2, .skipped_step = 4},
                      CrashCase{.name = "two_ranks_in_backward",
                                .place = "moments=host,weights=nvme",
                                .commit_every = 2,
                                .clip_norm = 0,
                                .ranks = 2,
                                .directories = 3}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::engine::testing

// Crash anywhere: after every write and flush of a run that commits, what it goes on from is the
// last commit that was acknowledged, or one that was in the making, bit for bit; and it ends where
// it would have ended.
#include <gtest/gtest.h>

#include "tests/engine/checkpoint/crash_fixture.h"

namespace strata::engine::testing {
namespace {

class CrashAnywhere : public CrashTest {};

TEST_P(CrashAnywhere, LosesNothingThatWasAcknowledged) { crash_everywhere(); }

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
                                .clip_norm = 0}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::engine::testing

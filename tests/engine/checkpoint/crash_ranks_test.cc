// Crash anywhere, on two ranks whose drives lose their power together: both go on from the same
// commit.
#include <gtest/gtest.h>

#include "tests/engine/checkpoint/crash_fixture.h"

namespace strata::engine::testing {
namespace {

class CrashRanks : public CrashTest {};

TEST_P(CrashRanks, LoseNothingThatWasAcknowledged) { crash_everywhere(); }

INSTANTIATE_TEST_SUITE_P(
    All, CrashRanks,
    ::testing::Values(CrashCase{.name = "deferred_skipping", .ranks = 2, .skipped_step = 4},
                      CrashCase{.name = "in_backward_mixed",
                                .place = "moments=host,weights=nvme",
                                .commit_every = 2,
                                .clip_norm = 0,
                                .ranks = 2,
                                .directories = 3}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::engine::testing

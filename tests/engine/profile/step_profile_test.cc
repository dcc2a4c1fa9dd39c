// Where a step's time went, of spans whose answer can be read off: sums to the wall time, nested
// and overlapping spans, and waits followed to their reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/profile/step_profile.h"
#include "kernels/base/span_names.h"

namespace strata::engine {
namespace {

namespace names = span_names;

// Rows by number, and spans on them, in nanoseconds.
class Spans {
 public:
  explicit Spans(std::vector<std::string> rows, DeviceKind device = DeviceKind::cpu)
      : rows_(std::move(rows)), profiler_(rows_, device) {}

  void add(const std::string& row, const char* name, std::int64_t begin, std::int64_t end) {
    const auto at = std::find(rows_.begin(), rows_.end(), row);
    recent_.spans.push_back({name, begin, end, -1, static_cast<int>(at - rows_.begin())});
  }
  const StepProfile& profile(std::int64_t begin, std::int64_t end) {
    return profiler_.profile(1, recent_, begin, end);
  }
  Tracer::RecentSpans& recent() { return recent_; }

 private:
  std::vector<std::string> rows_;
  StepProfiler profiler_;
  Tracer::RecentSpans recent_;
};

std::int64_t work(const StepProfile& profile, const std::string& row, std::string_view kind) {
  for (const WorkTime& time : profile.row(row)->work) {
    if (time.kind == kind) return time.ns;
  }
  return 0;
}

std::int64_t idle(const StepProfile& profile, const std::string& row, Idle reason) {
  return profile.row(row)->idle(reason);
}

void expect_sums(const StepProfile& profile) {
  for (const RowTimes& row : profile.rows) {
    const auto idle_ns = std::accumulate(row.idle_ns.begin(), row.idle_ns.end(), std::int64_t{0});
    EXPECT_EQ(row.work_ns() + idle_ns, profile.wall_ns) << row.row;
  }
}

TEST(StepProfile, WorkAndIdleTimeAreTheWallTime) {
  Spans spans({"compute", "fetch"});
  spans.add("compute", "linear", 100, 160);
  spans.add("compute", "attention", 160, 170);
  spans.add("compute", "linear", 180, 190);
  const StepProfile& profile = spans.profile(100, 200);
  EXPECT_EQ(profile.wall_ns, 100);
  EXPECT_EQ(work(profile, "compute", "linear"), 70);
  EXPECT_EQ(work(profile, "compute", "attention"), 10);
  EXPECT_EQ(idle(profile, "compute", Idle::nothing), 20);
  EXPECT_EQ(idle(profile, "fetch", Idle::nothing), 100);
  EXPECT_EQ(profile.row("compute")->work.front().kind, "linear") << "most first";
  expect_sums(profile);
}

// What streams do is not the cores', which wait for compute when it is all that works.
TEST(StepProfile, AGpuTakesTheWorkOfStreamsOffTheCores) {
  Spans spans({"compute", "h2d", "optimizer"}, DeviceKind::cuda);
  spans.add("compute", "linear", 0, 60);
  spans.add("h2d", "copy", 20, 90);
  spans.add("optimizer", names::kUpdate, 50, 70);
  const StepProfile& profile = spans.profile(0, 100);
  EXPECT_EQ(work(profile, "cores", "optimizer"), 20);
  EXPECT_EQ(profile.row("cores")->work_ns(), 20);
  EXPECT_EQ(idle(profile, "cores", Idle::compute), 50);
  EXPECT_EQ(idle(profile, "cores", Idle::nothing), 30);
  EXPECT_EQ(work(profile, "compute", "linear"), 60);
  EXPECT_EQ(work(profile, "h2d", "copy"), 70);
  expect_sums(profile);
}

TEST(StepProfile, WhatLiesOutsideOfTheStepIsCutOff) {
  Spans spans({"compute"});
  spans.add("compute", "linear", 50, 120);
  spans.add("compute", "linear", 190, 260);
  spans.add("compute", "linear", 10, 40);
  const StepProfile& profile = spans.profile(100, 200);
  EXPECT_EQ(work(profile, "compute", "linear"), 30);
  expect_sums(profile);
}

TEST(StepProfile, TheInnermostSpanSaysWhatAThreadDoes) {
  Spans spans({"fetch", "optimizer"});
  spans.add("fetch", names::kWaitRead, 10, 30);  // spans are recorded when they end
  spans.add("optimizer", names::kUpdate, 45, 60);
  spans.add("fetch", names::kWaitUpdate, 40, 70);
  spans.add("fetch", "update and fetch", 10, 100);
  spans.add("fetch", names::kWaitTurn, 0, 10);
  const StepProfile& profile = spans.profile(0, 100);
  EXPECT_EQ(idle(profile, "fetch", Idle::compute), 10);
  // No request is in flight: what is read is being verified.
  EXPECT_EQ(idle(profile, "fetch", Idle::verify), 20);
  EXPECT_EQ(idle(profile, "fetch", Idle::update), 15);
  EXPECT_EQ(idle(profile, "fetch", Idle::nothing), 15) << "the optimizer says nothing for 15 ns";
  EXPECT_EQ(work(profile, "fetch", "update and fetch"), 40);
  expect_sums(profile);
}

// Requests overlap, on both sides of the drive.
TEST(StepProfile, ADriveWorksWhileARequestIsInFlight) {
  Spans spans({"nvme read", "nvme write", "fetch", "gradients"});
  spans.add("nvme read", "read", 0, 20);
  spans.add("nvme read", "read", 10, 40);
  spans.add("nvme write", "write", 30, 60);
  spans.add("fetch", names::kWaitTurn, 60, 80);
  spans.add("gradients", "gradient", 60, 90);
  const StepProfile& profile = spans.profile(0, 100);
  EXPECT_EQ(work(profile, "drive", "read"), 30);
  EXPECT_EQ(work(profile, "drive", "read and write"), 10);
  EXPECT_EQ(work(profile, "drive", "write"), 20);
  // Idle for what feeds it: fetch first, then the gradients, then nobody.
  EXPECT_EQ(idle(profile, "drive", Idle::compute), 20);
  EXPECT_EQ(idle(profile, "drive", Idle::other), 10);
  EXPECT_EQ(idle(profile, "drive", Idle::nothing), 10);
  EXPECT_EQ(profile.row("nvme read"), nullptr) << "a drive is one row";
  expect_sums(profile);
}

TEST(StepProfile, ADriveWithoutTrafficWaitsForNothing) {
  Spans spans({"nvme read", "nvme write", "nvme read", "nvme write", "fetch"});
  spans.add("nvme read", "read", 0, 20);
  spans.add("fetch", names::kWaitTurn, 20, 80);
  const StepProfile& profile = spans.profile(0, 100);
  EXPECT_EQ(idle(profile, "drive 1", Idle::compute), 60);
  EXPECT_EQ(idle(profile, "drive 2", Idle::nothing), 100);
  expect_sums(profile);
}

TEST(StepProfile, EveryDriveIsARow) {
  Spans spans({"nvme read", "nvme write"});
  Spans two({"nvme read", "nvme write", "nvme read", "nvme write"});
  EXPECT_NE(spans.profile(0, 1).row("drive"), nullptr);
  const StepProfile& profile = two.profile(0, 1);
  EXPECT_NE(profile.row("drive 1"), nullptr);
  EXPECT_NE(profile.row("drive 2"), nullptr);
}

// compute waits for weights, whose copy waits for the fetch, which waits for the drive.
TEST(StepProfile, AWaitIsFollowedToItsReason) {
  Spans spans({"compute", "main", "h2d", "fetch", "optimizer", "nvme read", "nvme write"});
  spans.add("compute", "wait: weights ready", 0, 50);
  spans.add("fetch", names::kWaitRead, 0, 20);
  spans.add("nvme read", "read", 0, 18);
  spans.add("fetch", names::kWaitUpdate, 20, 40);
  spans.add("optimizer", names::kUpdate, 20, 40);
  spans.add("h2d", "copy", 40, 50);
  spans.add("compute", "linear", 50, 60);
  spans.add("main", names::kWaitFetch, 60, 70);
  spans.add("fetch", names::kWaitSlot, 60, 70);
  spans.add("main", names::kStep, 0, 80);
  const StepProfile& profile = spans.profile(0, 80);
  EXPECT_EQ(idle(profile, "compute", Idle::read), 18);
  EXPECT_EQ(idle(profile, "compute", Idle::verify), 2);
  EXPECT_EQ(idle(profile, "compute", Idle::update), 20);
  EXPECT_EQ(idle(profile, "compute", Idle::other), 10 + 10) << "a copy; then main enqueues";
  EXPECT_EQ(idle(profile, "compute", Idle::slot), 10) << "nothing is enqueued, since main waits";
  EXPECT_EQ(work(profile, "compute", "linear"), 10);
  EXPECT_EQ(work(profile, "main", names::kStep), 70);
  EXPECT_EQ(idle(profile, "main", Idle::slot), 10);
  EXPECT_EQ(work(profile, "cores", "optimizer"), 20);
  EXPECT_EQ(work(profile, "cores", "compute"), 10);
  EXPECT_EQ(work(profile, "cores", "h2d"), 10);
  EXPECT_EQ(idle(profile, "cores", Idle::read), 18);
  expect_sums(profile);
}

TEST(StepProfile, RowsThatWaitForEachOtherEnd) {
  Spans spans({"compute", "main"});
  spans.add("main", names::kWaitCompute, 0, 10);
  const StepProfile& profile = spans.profile(0, 10);
  EXPECT_EQ(idle(profile, "compute", Idle::other), 10);
  expect_sums(profile);
}

TEST(StepProfile, DroppedSpansAreSaid) {
  Spans spans({"compute"});
  spans.recent().dropped = 7;
  EXPECT_EQ(spans.profile(0, 10).dropped_spans, 7);
}

// Whatever the spans, times of each row are the wall time, and what one adds up by hand for
// compute.
TEST(StepProfile, RandomSpansSumUp) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    Spans spans({"compute", "main", "h2d", "fetch", "gradients", "nvme read", "nvme write"});
    const char* const kNames[] = {"linear",          names::kWaitRead,      names::kWaitFetch,
                                  names::kWaitSlot,  "wait: weights ready", names::kUpdate,
                                  names::kWaitWrite, names::kWaitGradients};
    std::int64_t computed = 0;
    std::int64_t at = -50;
    for (int i = 0; i < 100; ++i) {
      const std::int64_t begin = at + static_cast<std::int64_t>(random() % 20);
      at = begin + static_cast<std::int64_t>(random() % 30);
      spans.add("compute", "linear", begin, at);
      computed += std::max<std::int64_t>(
          0, std::min<std::int64_t>(at, 1000) - std::max<std::int64_t>(begin, 0));
      for (const char* row : {"main", "h2d", "fetch", "gradients", "nvme read", "nvme write"}) {
        const auto first = static_cast<std::int64_t>(random() % 1200) - 100;
        spans.add(row, kNames[random() % std::size(kNames)], first,
                  first + static_cast<std::int64_t>(random() % 200));
      }
    }
    const StepProfile& profile = spans.profile(0, 1000);
    EXPECT_EQ(work(profile, "compute", "linear"), computed);
    expect_sums(profile);
  }
}

}  // namespace
}  // namespace strata::engine

// What a run goes on with besides what it began with: other ranks, tiers, directories and intervals
// of checkpoints.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/run/durable_runs.h"
#include "tests/io/loop_mount.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;
using test::mentions;
using test::ProcessResult;

constexpr int kSteps = 9;

// A rate that does not depend on the length of the run, so that --steps may end it anywhere.
class Resume : public DurableRuns {
 protected:
  Resume() : DurableRuns(kSteps) {
    for (const char* drive : {"a", "b"}) folder_.make_folder(drive);
  }

  static Words until(int step, const Words& more) {
    return Words{"--warmup", "0",       "--lr-schedule",      "constant",       "--precision",
                 "f32",      "--steps", std::to_string(step), "--global-batch", "5"} +
           more;
  }
  int files_in(const std::string& folder) const {
    return static_cast<int>(std::distance(fs::directory_iterator(path(folder)), {}));
  }
  std::uintmax_t bytes_in(const std::string& folder) const {
    std::uintmax_t bytes = 0;
    for (const auto& file : fs::directory_iterator(path(folder))) bytes += file.file_size();
    return bytes;
  }
  // The run of "whole", which nothing happens to, and "run" in legs of three steps.
  void expect_the_same_bits(const std::vector<Words>& legs) const {
    complete("whole", until(kSteps, {}));
    for (std::size_t leg = 0; leg < legs.size(); ++leg) {
      const int step = 3 * static_cast<int>(leg + 1);
      complete("run", until(step, legs[leg] + Words{"--resume"}));
    }
    EXPECT_EQ(results_of("run"), results_of("whole"));
    EXPECT_TRUE(weights_of("run") == weights_of("whole"));
  }
};

TEST_F(Resume, FromNvmeToHostAndBackIsInPlace) {
  const Words drive = {"--nvme", "a", "--checkpoint-every", "2", "--place"};
  expect_the_same_bits(
      {drive + Words{"all=nvme"}, drive + Words{"all=host"}, drive + Words{"all=nvme"}});
  EXPECT_EQ(files_in("a"), 1);
}

TEST_F(Resume, InOtherDirectories) {
  expect_the_same_bits(
      {{"--nvme", "a"}, {"--nvme", "a=1GB/s,b=2GB/s", "--place", "all=nvme"}, {"--nvme", "b"}});
  EXPECT_EQ(files_in("a"), 0);
  EXPECT_EQ(files_in("b"), 1);
}

// From one slot of state to two and back.
TEST_F(Resume, WithAndWithoutCheckpoints) {
  const auto leg = [](const char* every) {
    return Words{"--nvme", "a", "--checkpoint-every", every};
  };
  complete("one", until(1, leg("0")));
  const std::uintmax_t one_slot = bytes_in("a");
  fs::remove_all(path("one"));
  EXPECT_EQ(strata({"gc", "a", "--force"}).exit_code, 0);
  ASSERT_EQ(files_in("a"), 0);

  expect_the_same_bits({leg("0"), leg("2"), leg("0")});
  EXPECT_EQ(files_in("a"), 1);
  EXPECT_EQ(bytes_in("a"), one_slot);
}

// What ranks change is the order in which gradients are added; ranks_test.cc derives the bound,
// 8e-6 a step at a rate of 1e-3, for models of this size.
TEST_F(Resume, OnAnotherNumberOfRanks) {
  if (!obstacle_to_ranks().empty()) GTEST_SKIP() << obstacle_to_ranks();
  const Words small = {"--model", "gpt2:layers=2,hidden=36,heads=3,context=32", "--lr", "1e-3"};
  const Words options = small + Words{"--nvme", "a", "--checkpoint-every", "1"};
  complete("whole", until(kSteps, small));
  for (const auto& [ranks, step] : {std::pair(1, 2), {4, 5}, {3, 7}, {1, kSteps}}) {
    complete("run", until(step, options + Words{"--resume"}), ranks);
    EXPECT_EQ(files_in("a"), ranks);
  }
  const Results whole = results_of("whole");
  const Results run = results_of("run");
  ASSERT_EQ(run.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    SCOPED_TRACE(fmt::format("step {}", i + 1));
    EXPECT_EQ(run[i][0], whole[i][0]);
    EXPECT_NEAR(run[i][1], whole[i][1], kSteps * 8e-6);
    EXPECT_EQ(run[i][2], whole[i][2]);
    EXPECT_NEAR(run[i][3], whole[i][3], 1e-4 * whole[i][3]);
  }
}

// Renamed, the directory is found when it is named; the run's folder moves with what is in it.
TEST_F(Resume, WhereTheFilesWereMoved) {
  complete("whole", until(kSteps, {}));
  complete("run", until(3, {"--nvme", "a"}));
  fs::remove(path("b"));
  fs::rename(path("a"), path("b"));
  expect_refused("run", until(6, {"--nvme", "", "--resume"}), 2,
                 {path("a"), "--nvme", "--resume-from"});
  const ProcessResult found = train("run", until(6, {"--nvme", "b", "--resume"}));
  EXPECT_EQ(found.exit_code, 0) << found.err;
  EXPECT_PRED2(mentions, found.out, "goes on from step 3, in the store that it has");
  fs::rename(path("run"), path("moved"));
  complete("moved", until(kSteps, {"--nvme", "b", "--resume"}));
  EXPECT_EQ(results_of("moved"), results_of("whole"));
}

TEST_F(Resume, WithoutRoomForBothStoresNothingIsTouched) {
  // Room for a store of two slots, 8 MiB, but not beside one of 4 MiB.
  io::LoopMount small(10 << 20);
  if (!small.mounted()) GTEST_SKIP() << "needs the right to mount";
  const Words options = {"--nvme", small.directory(), "--model",
                         "gpt2:layers=6,hidden=64,heads=2,context=32"};
  const Words one_slot = options + Words{"--checkpoint-every", "0"};
  complete("whole", until(kSteps, {"--model", options.back()}));
  complete("run", until(3, one_slot));
  const Words two_slots = options + Words{"--checkpoint-every", "1", "--resume"};
  expect_refused("run", until(6, two_slots), 2, {"--nvme: ", " needed", " free"});
  expect_intact("run");

  complete("run", until(kSteps, one_slot + Words{"--resume"}));
  EXPECT_EQ(results_of("run"), results_of("whole"));
}

}  // namespace
}  // namespace strata::engine

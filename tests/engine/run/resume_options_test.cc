// Whether a run goes on, by what is asked for: the same in other words, what it may not change
// without leave, and where it may not go on at all.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;
using test::contents_of;
using test::mentions;
using test::ProcessResult;

constexpr int kSteps = 30;

class ResumeOptions : public DurableRuns {
 protected:
  ResumeOptions() : DurableRuns(kSteps) {}

  // It does not depend on the length of the run, so that --steps may change.
  static Words constant_rate(int steps) {
    return {"--warmup", "0", "--lr-schedule", "constant", "--steps", std::to_string(steps)};
  }
};

// With all of its options, with none, in another order, from another file.
TEST_F(ResumeOptions, InOtherWords) {
  complete("whole", constant_rate(kSteps));
  const Words options = Words{"--checkpoint-every", "1"};
  complete("run", constant_rate(6) + options);
  const auto go_on = [&](const Words& words) {
    const ProcessResult result = strata(Words{"train"} + words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  };
  go_on({"--run", "run", "--resume", "--steps", "12"});
  go_on({"--steps", "18", "--resume", "--run", "run"});
  Words reversed;
  const Words all = command("run", constant_rate(24) + options);
  for (std::size_t i = all.size(); i > 2; i -= 2) {  // behind the program and "train"
    const Words option = {all[i - 2], all[i - 1]};
    const bool is_new = std::ranges::find(reversed, option[0]) == reversed.end();
    if (is_new) reversed = reversed + option;  // later words overrule earlier ones
  }
  go_on(Words{"--resume"} + reversed);
  std::ofstream(path("more.toml")) << "steps = 30\n";
  go_on({"--resume", "--config", "more.toml", "--run", "run"});
  EXPECT_EQ(results_of("run"), results_of("whole"));
}

// The paths that it was begun with are those of where it was begun.
TEST_F(ResumeOptions, FromAnotherFolder) {
  folder_.make_folder("nv");
  folder_.make_folder("elsewhere");
  complete("run", constant_rate(6) + Words{"--nvme", "nv", "--checkpoint-every", "1"});
  const std::string file = store_file("run", "nv");
  const auto go_on = [&](const Words& words) {
    const ProcessResult result = test::run_process(
        Words{STRATA_BINARY, "train", "--run", "../run", "--resume"} + words, path("elsewhere"));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_PRED2(mentions, result.out, "in the store that it has");
  };
  go_on({"--steps", "12"});
  go_on({"--steps", "18", "--data", "../text.txt"});
  EXPECT_EQ(store_file("run", "nv"), file);
  EXPECT_EQ(logged("run").size(), 18);
}

TEST_F(ResumeOptions, WhereThereIsNoRunNothingIsGoneOnWith) {
  const ProcessResult fresh = train("run", {"--resume", "--resume-step", "5"});
  EXPECT_EQ(fresh.exit_code, 2);
  EXPECT_PRED2(mentions, fresh.err, "--resume-step 5: the run in run has not begun");
  EXPECT_FALSE(fs::exists(path("run")));
}

// Wherever it is done: a new store is measured on, beside one that holds state there is another
// file.
TEST_F(ResumeOptions, MeasuringTheDriveCountsEachTime) {
  const auto measuring_bytes = [&](const Words& more) {
    const ProcessResult result = train("run", Words{"--json", "--checkpoint-every", "1"} + more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const auto summary = test::json_lines(result.out).back();
    const auto& nvme = summary["nvme"];
    EXPECT_EQ(summary["nvme_written_bytes"], nvme["by_device"][0]["written_bytes"]);
    return nvme["by_kind"]["measuring"]["written_bytes"].get<std::int64_t>();
  };
  const std::int64_t first = measuring_bytes(constant_rate(6));
  EXPECT_GT(first, 0);
  EXPECT_EQ(measuring_bytes(constant_rate(12) + Words{"--resume"}), first);
}

TEST_F(ResumeOptions, ARunThatIsAliveIsLeftAlone) {
  const Words endless = {"--steps", "100000", "--checkpoint-every", "1"};
  const auto alive = started(command("run", endless), "run");
  const ProcessResult refused = train("run", endless + Words{"--resume"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_PRED2(mentions, refused.err,
               fmt::format("--run run: in use by process {} on ", alive->pid()));
  EXPECT_EQ(end_of(*alive, SIGUSR1).exit_code, 75);
  expect_intact("run");
}

// Never restarted in silence.
TEST_F(ResumeOptions, ARunWithoutCheckpointsThatWasKilledInMidStepIsRefused) {
  const Words endless = {"--steps", "100000", "--checkpoint-every", "0"};
  const auto alive = started(command("run", endless), "run");
  EXPECT_EQ(end_of(*alive, SIGKILL).exit_code, -1);
  const std::string store = contents_of(store_file("run", "run"));
  for (int again = 0; again < 2; ++again) {
    expect_refused("run", endless + Words{"--resume"}, 2,
                   {"in the middle of a step", "--checkpoint-every 0", "--run", "--resume-from"});
  }
  EXPECT_TRUE(contents_of(store_file("run", "run")) == store);
}

TEST_F(ResumeOptions, WhatWouldChangeTheMathematicsHasToBeAllowed) {
  complete("run", constant_rate(10));
  expect_refused("run", constant_rate(10), 2,
                 {"--run run: there is a run in this folder", "--resume"});
  const Words more = constant_rate(20) + Words{"--resume", "--lr", "1e-4"};
  expect_refused("run", more, 2, {"--lr was '0.0003' and is now '0.0001'", "--allow-change lr"});
  complete("run", more + Words{"--allow-change", "lr"});
  const Results results = logged("run");
  ASSERT_EQ(results.size(), 20);
  EXPECT_EQ(results[9][2], 3e-4);
  EXPECT_EQ(results[10][2], 1e-4);
  // It is the run's own now.
  const Words rest = constant_rate(30) + Words{"--resume", "--lr", "1e-4"};
  complete("run", rest);

  expect_refused("run", rest + Words{"--isa", "scalar"}, 2,
                 {"--isa was 'auto' and is now 'scalar'", "--allow-change isa"});
}

// As on a machine that has not what the run was computed with.
TEST_F(ResumeOptions, OtherArithmeticHasToBeAllowed) {
  complete("run", {"--checkpoint-every", "1"});
  const std::string file = path("run/arithmetic.json");
  auto arithmetic = nlohmann::json::parse(contents_of(file));
  arithmetic["isa"] = arithmetic["isa"] == "avx2" ? "avx512" : "avx2";
  std::ofstream(file) << arithmetic;
  expect_refused("run", {"--resume"}, 2,
                 {"arithmetic.json", "instruction set", "--allow-change arithmetic"});
  complete("run", {"--resume", "--allow-change", "arithmetic"});
}

TEST_F(ResumeOptions, ACompleteRunStaysWhatItIs) {
  complete("run", {"--checkpoint-every", "4"});
  const std::string log = contents_of(path("run/log.jsonl"));
  const std::string weights = weights_of("run");
  const ProcessResult again = train("run", {"--resume"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_PRED2(mentions, again.out, "give --steps N --allow-change steps");
  EXPECT_EQ(contents_of(path("run/log.jsonl")), log);
  fs::remove_all(path("run.exported"));
  EXPECT_TRUE(weights_of("run") == weights);
}

}  // namespace
}  // namespace strata::engine

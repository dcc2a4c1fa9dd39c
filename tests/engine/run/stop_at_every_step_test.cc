// A run of ten steps that is in the middle of its second epoch at the end, stopped at every step.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

using test::ProcessResult;

constexpr int kSteps = 10;
constexpr int kSamples = 7;  // in the text, and a step takes one of them
constexpr int kSequence = 32;

class StopAtEveryStep : public DurableRuns, public ::testing::WithParamInterface<const char*> {
 protected:
  StopAtEveryStep() : DurableRuns(kSteps, kSamples * kSequence + 1) {}

  // One sample a step, and an evaluation before the first. `clip_norm`: 0 updates in backward.
  static Words options(const char* clip_norm, const char* lr) {
    return {"--model",
            "gpt2:layers=12,hidden=192,heads=3,context=32",
            "--device-memory",
            "64MiB",
            "--global-batch",
            "1",
            "--val-data",
            "text.txt",
            "--warmup",
            "3",
            "--lr-schedule",
            "cosine",
            "--lr",
            lr,
            "--clip-norm",
            clip_norm,
            "--place",
            "moments=nvme"};
  }

  // Starts the run or goes on with it, and has it stop after `step`, or a step later when the
  // signal comes late, or before the first step of a new run. Returns the step that it stopped
  // after.
  int stopped_after(int step, const std::string& run, const Words& options) const {
    const int before = static_cast<int>(logged(run).size());
    // The line of the step before, below that of the evaluation.
    const auto process = started(command(run, options + Words{"--resume"}), run, step);
    ::kill(process->pid(), SIGUSR1);
    const ProcessResult result = process->wait();
    const int after = static_cast<int>(logged(run).size());
    EXPECT_EQ(result.exit_code, after == kSteps ? 0 : 75) << result.out << result.err;
    EXPECT_GE(after, before == 0 ? 0 : before + 1);
    return after;
  }

  // One run with stops at those of `steps` that lie two steps apart or more; takes them out.
  void run_with_stops(std::set<int>& steps, const std::string& run, const Words& options) const {
    auto next = steps.begin();
    while (next != steps.end()) {
      const int step = *next;
      const int after = stopped_after(step, run, options);
      steps.erase(after);
      // Its first step is under way when a run that goes on can be seen to do so.
      next = steps.lower_bound(std::max(after, step) + 2);
    }
    const ProcessResult rest = train(run, options + Words{"--resume"});
    EXPECT_EQ(rest.exit_code, 0) << rest.err;
  }
};

TEST_P(StopAtEveryStep, TheRestIsAsIfNothingHadHappened) {
  const Words words = options(GetParam(), "1e-3");
  const ProcessResult whole = train("whole", words);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  std::set<int> steps;
  for (int step = 1; step < kSteps; ++step) steps.insert(step);
  for (int i = 0; i < 20 && !steps.empty(); ++i) {
    const std::string run = fmt::format("run{}", i);
    run_with_stops(steps, run, words);
    EXPECT_EQ(results_of(run), results_of("whole")) << run;
  }
  EXPECT_TRUE(steps.empty()) << "never stopped after step " << *steps.begin();
}

// With a rate that changes no weight, a sample is known by its loss.
TEST_P(StopAtEveryStep, EachSampleComesOncePerEpoch) {
  std::set<int> steps = {3, 6, 8};
  run_with_stops(steps, "run", options(GetParam(), "1e-30"));
  std::set<double> first, second;
  for (const auto& result : results_of("run")) {
    (result[0] <= kSamples ? first : second).insert(result[1]);
  }
  EXPECT_EQ(first.size(), kSamples);
  EXPECT_EQ(second.size(), kSteps - kSamples);
  EXPECT_TRUE(std::ranges::includes(first, second));
}

INSTANTIATE_TEST_SUITE_P(Updates, StopAtEveryStep, ::testing::Values("1", "0"),
                         [](const auto& info) {
                           return std::string(info.param) == "0" ? "InBackward" : "Deferred";
                         });

}  // namespace
}  // namespace strata::engine

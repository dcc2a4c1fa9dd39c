// Runs that signals stop, as a user sees them: exit status, what is said, and that going on gives
// the losses of a run that nothing happened to.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <tuple>

#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

using test::mentions;
using test::ProcessResult;

// Enough for a signal to come between.
constexpr int kSteps = 120;

class StoppedRun : public DurableRuns {
 protected:
  StoppedRun() : DurableRuns(kSteps) {}

  Words command(const std::string& run, const Words& more, int ranks = 1) const {
    return DurableRuns::command(run, Words{"--place", "moments=nvme"} + more, ranks);
  }
  ProcessResult train(const std::string& run, const Words& more, int ranks = 1) const {
    return test::run_process(command(run, more, ranks), folder_.path());
  }

  void expect_going_on_to(const Results& expected, const std::string& run, const Words& more,
                          int ranks = 1) const {
    const ProcessResult rest = train(run, more + Words{"--resume"}, ranks);
    EXPECT_EQ(rest.exit_code, 0) << rest.err;
    EXPECT_EQ(results_of(run), expected);
  }
};

// Updates deferred and in backward, with two slots of state and with one.
TEST_F(StoppedRun, GoesOnToTheSameLosses) {
  for (const char* clip_norm : {"1", "0"}) {
    const Words update = {"--clip-norm", clip_norm};
    const std::string whole = std::string("whole") + clip_norm;
    EXPECT_EQ(train(whole, update).exit_code, 0);
    for (const auto& [signal, name, every] :
         {std::tuple(SIGUSR1, "SIGUSR1", "3"), std::tuple(SIGTERM, "SIGTERM", "0"),
          std::tuple(SIGINT, "SIGINT", "30min")}) {
      const std::string run = std::string(name) + clip_norm;
      const Words options = update + Words{"--checkpoint-every", every};
      const auto process = started(command(run, options), run);
      const ProcessResult stopped = end_of(*process, signal);
      EXPECT_EQ(stopped.exit_code, 75) << stopped.err;
      EXPECT_PRED2(mentions, stopped.out, std::string("stopped by ") + name + " after step ");
      EXPECT_PRED2(mentions, stopped.out, "strata train --run " + run + " --resume");
      expect_going_on_to(results_of(whole), run, options);
    }
  }
}

// Whoever stops it does not wait for an evaluation: it is made when the run goes on.
TEST_F(StoppedRun, TheLogHasEveryEvaluation) {
  const Words options = {"--val-fraction", "0.2", "--eval-every", "1", "--eval-batches", "2"};
  const auto validation = [&](const std::string& run) {
    std::vector<double> losses;
    for (const auto& line : test::json_lines(test::contents_of(path(run + "/log.jsonl")))) {
      losses.push_back(line["val_loss"].is_null() ? -1.0 : line["val_loss"].get<double>());
    }
    return losses;
  };
  EXPECT_EQ(train("whole", options).exit_code, 0);
  const auto process = started(command("run", options), "run");
  EXPECT_EQ(end_of(*process, SIGTERM).exit_code, 75);
  EXPECT_EQ(validation("run").back(), -1.0);
  expect_going_on_to(results_of("whole"), "run", options);
  EXPECT_EQ(validation("run"), validation("whole"));
}

TEST_F(StoppedRun, AStepThatTakesLongerIsDropped) {
  EXPECT_EQ(train("whole", {}).exit_code, 0);
  const Words options = {"--checkpoint-every", "3", "--stop-within", "0s"};
  const auto process = started(command("run", options), "run");
  const ProcessResult stopped = end_of(*process, SIGTERM);
  EXPECT_EQ(stopped.exit_code, 75);
  EXPECT_PRED2(mentions, stopped.err, "stopped by SIGTERM ");
  EXPECT_PRED2(mentions, stopped.err, "--stop-within");
  EXPECT_PRED2(mentions, stopped.err, "; resume from step ");
  expect_going_on_to(results_of("whole"), "run", options);
}

// The only commit of a run that is killed afterwards.
TEST_F(StoppedRun, Usr2CommitsAndTheRunGoesOn) {
  const Words options = {"--checkpoint-every", "1000"};
  const auto process = started(command("run", options), "run");
  EXPECT_EQ(::kill(process->pid(), SIGUSR2), 0);
  wait_for_lines("run", 50);
  const ProcessResult killed = end_of(*process, SIGKILL);
  EXPECT_EQ(killed.exit_code, -1);
  const ProcessResult rest = train("run", options + Words{"--resume", "--json"});
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
  const auto lines = test::json_lines(rest.out);
  const auto first = std::ranges::find_if(lines, [](const auto& l) { return l.contains("step"); });
  ASSERT_NE(first, lines.end());
  EXPECT_GT((*first)["step"], 5);
  EXPECT_LT((*first)["step"], 51);
}

// As somebody presses Ctrl-C twice.
TEST_F(StoppedRun, AnotherSignalKillsAtOnce) {
  // The log's first line is from before the first step, which would take minutes.
  const Words slow = {"--global-batch", "50000", "--pass",        "1",
                      "--val-fraction", "0.1",   "--stop-within", "1h"};
  const auto process = started(command("slow", slow), "slow", 1);
  EXPECT_EQ(::kill(process->pid(), SIGINT), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const ProcessResult killed = end_of(*process, SIGINT);
  EXPECT_EQ(killed.exit_code, -1) << killed.out;
}

// mpirun passes SIGUSR1 on, and returns what a rank does.
TEST_F(StoppedRun, AllRanksReturnTheSameStatus) {
  if (!obstacle_to_ranks().empty()) GTEST_SKIP() << obstacle_to_ranks();
  EXPECT_EQ(train("whole", {}, 2).exit_code, 0);
  for (const char* within : {"20s", "0s"}) {
    const std::string run = std::string("within") + within;
    const Words options = {"--checkpoint-every", "3", "--stop-within", within};
    const auto process = started(command(run, options, 2), run);
    const ProcessResult stopped = end_of(*process, SIGUSR1);
    EXPECT_EQ(stopped.exit_code, 75) << stopped.err;
    expect_going_on_to(results_of("whole"), run, options, 2);
  }
}

// It kills its ranks a second after it got a SIGTERM of its own, whatever they do.
TEST_F(StoppedRun, AnMpirunThatIsTerminatedLosesNothing) {
  if (!obstacle_to_ranks().empty()) GTEST_SKIP() << obstacle_to_ranks();
  EXPECT_EQ(train("whole", {}, 2).exit_code, 0);
  const Words options = {"--checkpoint-every", "3"};
  const auto process = started(command("run", options, 2), "run");
  EXPECT_NE(end_of(*process, SIGTERM).exit_code, 0);
  const Results before = logged("run");
  EXPECT_GE(before.size(), 5);
  expect_going_on_to(results_of("whole"), "run", options, 2);
}

}  // namespace
}  // namespace strata::engine

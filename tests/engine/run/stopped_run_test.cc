// Runs that signals stop, as a user sees them: exit status, what is said, and that going on gives
// the losses of a run that nothing happened to.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/support/engine_run.h"
#include "tests/support/error_text.h"
#include "tests/support/json_lines.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using namespace std::chrono_literals;
using test::mentions;
using test::Process;
using test::ProcessResult;

using Words = std::vector<std::string>;

// Enough for a signal to come between.
constexpr int kSteps = 120;

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class StoppedRun : public ::testing::Test {
 protected:
  StoppedRun() { test::write_text(folder_.path("text.txt"), 8'000); }

  Words command(const std::string& run, const Words& more) const {
    return Words{STRATA_BINARY,     "train",
                 "--model",         "gpt2:layers=2,hidden=64,heads=2,context=32",
                 "--data",          "text.txt",
                 "--steps",         std::to_string(kSteps),
                 "--global-batch",  "2",
                 "--warmup",        "10",
                 "--place",         "moments=nvme",
                 "--device-memory", "32MiB",
                 "--host-memory",   "64MiB",
                 "--matmul-dtype",  "f32",
                 "--threads",       "1",
                 "--run",           run} +
           more;
  }
  ProcessResult train(const std::string& run, const Words& more) const {
    return test::run_process(command(run, more), folder_.path());
  }
  // A run that has done some steps.
  std::unique_ptr<Process> started(const Words& words, const std::string& run) const {
    auto process = std::make_unique<Process>(words, folder_.path());
    wait_for_step(run, 5);
    return process;
  }
  void wait_for_step(const std::string& run, int step) const {
    const auto log = [&] { return test::contents_of(folder_.path(run + "/log.jsonl")); };
    for (int i = 0; i < 4000 && std::ranges::count(log(), '\n') < step; ++i) {
      std::this_thread::sleep_for(5ms);
    }
  }
  ProcessResult end_of(Process& process, int signal) const {
    EXPECT_EQ(::kill(process.pid(), signal), 0);
    return process.wait(60s);
  }

  // Of every step, in the order of the log.
  std::vector<std::vector<double>> results_of(const std::string& run) const {
    std::vector<std::vector<double>> results;
    for (const auto& line : test::json_lines(test::contents_of(folder_.path(run + "/log.jsonl")))) {
      results.push_back({line["step"], line["loss"], line["lr"], line["grad_norm"]});
    }
    EXPECT_EQ(results.size(), kSteps);
    return results;
  }
  void expect_going_on_to(const std::vector<std::vector<double>>& expected, const std::string& run,
                          const Words& more) const {
    const ProcessResult rest = train(run, more + Words{"--resume"});
    EXPECT_EQ(rest.exit_code, 0) << rest.err;
    EXPECT_EQ(results_of(run), expected);
  }

  test::TemporaryFolder folder_;
};

// Updates deferred and in backward, with two slots of state and with one.
TEST_F(StoppedRun, GoesOnToTheSameLosses) {
  for (const char* clip_norm : {"1", "0"}) {
    const Words update = {"--clip-norm", clip_norm};
    const std::string whole = std::string("whole") + clip_norm;
    EXPECT_EQ(train(whole, update).exit_code, 0);
    for (const auto& [signal, name, every] :
         {std::tuple(SIGUSR1, "SIGUSR1", "3"), std::tuple(SIGTERM, "SIGTERM", "0")}) {
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
  wait_for_step("run", 50);
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

// mpirun passes SIGUSR1 on, and returns what a rank does.
TEST_F(StoppedRun, AllRanksReturnTheSameStatus) {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  setenv("ASAN_OPTIONS", "detect_leaks=0", 0);  // OpenMPI's, at exit
  setenv("TSAN_OPTIONS", "detect_deadlocks=0", 0);
  const Words mpirun = {"mpirun", "--oversubscribe", "-n", "2"};
  const Words probe = mpirun + Words{STRATA_BINARY, "plan", "--model", "gpt2-124m"};
  const ProcessResult plan = test::run_process(probe, "/");
  if (plan.exit_code != 0) GTEST_SKIP() << "no mpirun here, or a build without MPI: " << plan.err;

  EXPECT_EQ(test::run_process(mpirun + command("whole", {}), folder_.path()).exit_code, 0);
  for (const char* within : {"20s", "0s"}) {
    const std::string run = std::string("within") + within;
    const Words options = {"--checkpoint-every", "3", "--stop-within", within};
    const auto process = started(mpirun + command(run, options), run);
    const ProcessResult stopped = end_of(*process, SIGUSR1);
    EXPECT_EQ(stopped.exit_code, 75) << stopped.err;
    const Words again = mpirun + command(run, options + Words{"--resume"});
    EXPECT_EQ(test::run_process(again, folder_.path()).exit_code, 0);
    EXPECT_EQ(results_of(run), results_of("whole"));
  }
}

}  // namespace
}  // namespace strata::engine

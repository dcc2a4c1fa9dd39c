// Ranks with a GPU each, as a user starts them: the simulated device, with NCCL's collectives
// between processes.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/base/bytes.h"
#include "tests/engine/run/cuda_runs.h"

namespace strata::engine {
namespace {

using nlohmann::json;
using test::mentions;
using test::Process;
using test::ProcessResult;

constexpr int kSteps = 3;
constexpr int kStopStep = 2;
constexpr std::int64_t kContextBytes = 256 * kMiB;  // of the simulated device, without NCCL

class CudaRanks : public CudaRuns {
 protected:
  CudaRanks() : CudaRuns(kSteps) {}
  void SetUp() override {
    if (!obstacle_to_ranks().empty()) GTEST_SKIP() << obstacle_to_ranks();
  }

  static Words on(const std::string& device, const Words& more = {}) {
    return small_model("f32") + Words{"--device", device} + more;
  }
  // Until the run fails, or the second rank is made to.
  static Words endless() { return on("cuda", {"--steps", "1000000", "--comm-timeout", "3"}); }

  // The second of two ranks with a variable of its own.
  Words with_second(const std::string& variable, const Words& more) const {
    const Words program = command("run", more);
    return Words{"mpirun", "--oversubscribe", "-n", "1"} + program +
           Words{":", "-n", "1", "env", variable} + program;
  }
  ProcessResult run_with_second(const std::string& variable, const Words& more) const {
    return test::run_process(with_second(variable, more), folder_.path());
  }

  void expect_close(const Results& actual, const Results& expected) const {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(actual[i][1], expected[i][1], kF32Tolerance * expected[i][1]) << "step " << i;
    }
  }
};

TEST_F(CudaRanks, TwoTrainAsOneAndAnyNumberGoesOn) {
  complete("one", on("cuda"));
  const Results expected = results_of("one");
  complete("two", on("cuda"), 2);
  expect_close(results_of("two"), expected);

  const Words stop = {"--steps", std::to_string(kStopStep)};
  for (const char* run : {"gpus", "gpu", "cpu"}) complete(run, on("cuda", stop), 2);
  complete("gpus", on("cuda", {"--resume"}), 2);
  EXPECT_EQ(results_of("gpus"), results_of("two"));
  EXPECT_EQ(weights_of("gpus"), weights_of("two"));
  complete("gpu", on("cuda", {"--resume"}));
  expect_close(results_of("gpu"), expected);
  complete("cpu", on("cpu", {"--resume", "--allow-change", "device"}));
  expect_close(results_of("cpu"), expected);
}

TEST_F(CudaRanks, ReadAModelAsOneDoes) {
  complete("run", on("cuda"));
  const auto output_of = [&](int ranks, const Words& command) {
    const Words more = {
        "--model", "run",           "--device", "cuda",      "--json", "--device-memory",
        "320MiB",  "--host-memory", "64MiB",    "--threads", "1"};
    const ProcessResult result =
        test::run_process(mpirun(ranks) + Words{STRATA_BINARY} + command + more, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  };
  const Words eval = {"eval", "--data", "text.txt", "--eval-batches", "4"};
  const double loss = output_of(1, eval).at("loss");
  EXPECT_NEAR(output_of(2, eval).at("loss"), loss, kF32Tolerance * loss);
  const Words generate = {"generate", "--prompt",      "a tier ", "--max-tokens",
                          "8",        "--temperature", "0"};
  EXPECT_EQ(output_of(2, generate).at("text"), output_of(1, generate).at("text"));
}

TEST_F(CudaRanks, MemoryOfNcclIsInThePlan) {
  Words plan = command("run", on("cuda", {"--json"}), 2);
  *std::ranges::find(plan, "train") = "plan";
  const ProcessResult result = test::run_process(plan, folder_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json held = json::parse(result.out).at("tiers").at("device").at("bytes");
  EXPECT_GE(held.at("CUDA context"), kContextBytes + 2 * kMiB);
  EXPECT_GE(held.at("collective staging"), 8 * kMiB);
}

TEST_F(CudaRanks, AutoTakesTheProcessorsUnlessEveryRankHasAGpu) {
  const std::string none = "STRATA_CUDA_BACKEND=/no/such/backend.so";
  const ProcessResult chosen = run_with_second(none, on("auto"));
  ASSERT_EQ(chosen.exit_code, 0) << chosen.err;
  EXPECT_PRED2(mentions, chosen.out, "auto: rank 1: ");
  EXPECT_PRED2(mentions, chosen.out, "/no/such/backend.so");
  const ProcessResult refused = run_with_second(none, on("cuda"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_PRED2(mentions, refused.err, "strata: error: rank 1: --device cuda: no CUDA device: ");

  const ProcessResult all = train("all", on("auto"), 2);
  ASSERT_EQ(all.exit_code, 0) << all.err;
  EXPECT_PRED2(mentions, all.out, "auto: every rank has a GPU");
}

TEST_F(CudaRanks, AFailureOfNcclEndsTheRunAndNamesItsRank) {
  // ncclSystemError; of what training does, not of the start.
  for (const char* fault :
       {"ncclSend:20:2", "NCCL work:30:2", "ncclGroupEnd:20:2", "ncclCommGetAsyncError:200:2"}) {
    SCOPED_TRACE(fault);
    const ProcessResult result = run_with_second(std::string("STRATA_SIM_FAULT=") + fault,
                                                 endless() + Words{"--run", fault});
    EXPECT_GT(result.exit_code, 0);
    EXPECT_PRED2(mentions, result.err, " failed on rank 1: unhandled system error");
  }
  const ProcessResult start =
      run_with_second("STRATA_SIM_FAULT=ncclCommInitRankConfig:2:2", endless());
  EXPECT_GT(start.exit_code, 0);
  EXPECT_PRED2(mentions, start.err, "failed on rank 1: unhandled system error");
}

TEST_F(CudaRanks, ACollectiveThatIsStuckEndsTheRun) {
  const ProcessResult result = run_with_second("STRATA_SIM_FAULT=NCCL work:30:7", endless());
  EXPECT_GT(result.exit_code, 0);
  EXPECT_PRED2(mentions, result.err, " has been under way for ");
  EXPECT_PRED2(mentions, result.err, "(--comm-timeout 3 s) on rank ");
}

class CudaRanksEnd : public CudaRanks, public ::testing::WithParamInterface<int> {};

TEST_P(CudaRanksEnd, ALostRankEndsTheRunAndIsNamed) {
  Process process(command("run", endless(), 2), folder_.path());
  wait_for_lines("run", 3);
  const std::vector<pid_t> ranks = children_of(process);
  ASSERT_EQ(ranks.size(), 2u) << process.err();
  EXPECT_EQ(::kill(ranks[1], GetParam()), 0);
  const ProcessResult result = process.wait(std::chrono::seconds(20));
  EXPECT_GT(result.exit_code, 0);
  EXPECT_PRED2(mentions, result.err, "rank 1");  // mpirun sees a death first and says so
  if (GetParam() != SIGSTOP) return;
  EXPECT_PRED2(mentions, result.err, "strata: error: rank 0: rank 1 has not answered for ");
  EXPECT_PRED2(mentions, result.err, " (--comm-timeout 3 s)");
}

INSTANTIATE_TEST_SUITE_P(Signals, CudaRanksEnd, ::testing::Values(SIGKILL, SIGSTOP));

}  // namespace
}  // namespace strata::engine

// One run over several ranks: the same numbers as on one, and an end for all when one of them
// fails.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/bytes.h"
#include "tests/support/engine_run.h"
#include "tests/support/error_text.h"
#include "tests/support/json_lines.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using nlohmann::json;
using test::mentions;
using test::Process;
using test::ProcessResult;
using test::TemporaryFolder;
using namespace std::chrono_literals;

using Options = std::vector<std::string>;

constexpr int kRanksMax = 4;
constexpr int kGlobalBatch = 5;  // 5; 3 + 2; 2 + 2 + 1; 2 + 1 + 1 + 1
constexpr int kSeqLen = 32;
constexpr double kLearningRate = 1e-3;
constexpr int kSteps = 3;

Options joined(Options a, const Options& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Whether it ends within a few seconds; its parent may leave it a zombie.
bool ends_soon(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    const std::string status = test::contents_of(fmt::format("/proc/{}/status", pid));
    if (status.empty() || mentions(status, "State:\tZ")) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

class RanksTest : public ::testing::Test {
 protected:
  // "" when this build and this machine can run ranks.
  inline static std::string obstacle;
  static void SetUpTestSuite() {
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    // In sanitizer builds: OpenMPI 4.1 leaks at exit and takes its TCP locks in two orders.
    setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
    setenv("TSAN_OPTIONS", "detect_deadlocks=0", 0);
    const Options plan = {"mpirun", "--oversubscribe", "-n",       "2", STRATA_BINARY,
                          "plan",   "--model",         "gpt2-124m"};
    const ProcessResult result = test::run_process(plan, "/");
    if (result.exit_code == 127) obstacle = "no mpirun here";
    if (mentions(result.err, "without MPI")) obstacle = "this build is without MPI";
  }

  RanksTest() {
    test::write_text(path("text.txt"), 8000);
    std::filesystem::create_directory(path("nvme"));
  }
  void SetUp() override {
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  }

  std::string path(const std::string& name) const { return folder_.path(name); }

  static Options program(int ranks, const std::string& executable) {
    if (ranks == 1) return {executable};
    return {"mpirun", "--oversubscribe", "-n", std::to_string(ranks), executable};
  }

  Options command(int ranks, const Options& options,
                  const std::string& executable = STRATA_BINARY) const {
    const Options train = {"train",
                           "--model",
                           "gpt2:layers=2,hidden=36,heads=3,context=32",
                           "--data",
                           "text.txt",
                           "--nvme",
                           "nvme",
                           "--threads",
                           "1",
                           "--device-memory",
                           "64MiB",
                           "--host-memory",
                           "256MiB",
                           "--val-fraction",
                           "0.1",
                           "--global-batch",
                           std::to_string(kGlobalBatch),
                           "--lr",
                           std::to_string(kLearningRate)};
    return joined(joined(program(ranks, executable), train), options);
  }

  // The lines of the log of a run of kSteps, evaluated before the first and after every step.
  std::vector<json> train(int ranks, const Options& options) const {
    const Options more = {
        "--steps",  std::to_string(kSteps), "--eval-every", "1", "--eval-batches", "3", "--log",
        "log.jsonl"};
    const ProcessResult result =
        test::run_process(command(ranks, joined(more, options)), folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::vector<json> lines = test::json_lines(test::contents_of(path("log.jsonl")));
    std::filesystem::remove(path("log.jsonl"));
    EXPECT_EQ(lines.size(), 1 + kSteps);
    return lines;
  }

  // A program that runs `script` as a shell where $rank is its rank, and then strata as this shell.
  std::string wrapper(const std::string& script) const {
    std::ofstream(path("wrapper")) << "#!/bin/sh\nrank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n"
                                   << script << "\nexec " << STRATA_BINARY << " \"$@\"\n";
    std::filesystem::permissions(path("wrapper"), std::filesystem::perms::owner_all);
    return path("wrapper");
  }

  // A process id as a wrapper wrote it; 0: not yet.
  pid_t rank_pid(int rank) const {
    return std::atoi(test::contents_of(path(fmt::format("pid.{}", rank))).c_str());
  }

  // Starts three ranks, sends `signal` to `rank` once a few steps are done, and returns how the run
  // ends.
  ProcessResult end_of_run_with(int signal, int rank) const {
    const Options options = {"--steps", "1000000", "--comm-timeout", "3", "--log", "log.jsonl"};
    Process process(command(3, options, wrapper("echo $$ > pid.$rank")), folder_.path());
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (std::ranges::count(test::contents_of(path("log.jsonl")), '\n') < 3) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "no steps: " << process.err();
        return {};
      }
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_EQ(::kill(rank_pid(rank), signal), 0);
    ProcessResult result = process.wait(20s);  // the timeout, and time for mpirun to clean up
    for (int r = 0; r < 3; ++r) EXPECT_TRUE(ends_soon(rank_pid(r))) << "rank " << r;
    return result;
  }

  TemporaryFolder folder_;
};

// What ranks change is the order in which the f32 gradients of the step's 160 tokens are added: a
// relative error of at most 160 x 2^-24 = 1e-5, norm by norm (1e-8 is typical). Where a gradient g
// is off by d, Adam moves the parameter by up to 2 lr d / |g| elsewhere, and never by more than
// 2 lr, so that the loss changes by up to 2 lr d in each of the P = 42,000 parameters, in all by
// 2 lr sqrt(P) |d| = 2 x 1e-3 x 205 x 1e-5 x 2 (norm of the gradient) = 8e-6 a step. A sequence
// that is lost or counted twice changes the loss by 1e-2.
constexpr double kLossTolerance = kSteps * 8e-6;
// 1e-5 itself in the first step; then the weights differ too.
constexpr double kNormTolerance = 1e-4;

void expect_agreement(const std::vector<json>& one, const std::vector<json>& many) {
  ASSERT_EQ(one.size(), many.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(many[i]["tokens"], one[i]["tokens"]);
    EXPECT_NEAR(many[i]["val_loss"], one[i]["val_loss"], kLossTolerance) << "step " << i;
    if (i == 0) continue;
    const double norm = one[i]["grad_norm"];
    EXPECT_NEAR(many[i]["loss"], one[i]["loss"], kLossTolerance) << "step " << i;
    EXPECT_NEAR(many[i]["grad_norm"], norm, kNormTolerance * norm) << "step " << i;
  }
}

struct Regime {
  const char* name;
  Options options;
};

class RankCounts : public RanksTest, public ::testing::WithParamInterface<Regime> {};

TEST_P(RankCounts, Agree) {
  const Options options = joined({"--precision", "f32"}, GetParam().options);
  const std::vector<json> one = train(1, options);
  for (int ranks = 2; ranks <= kRanksMax; ++ranks) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    expect_agreement(one, train(ranks, options));
  }
}

constexpr const char* kLlama =
    "llama:layers=2,hidden=36,heads=6,kv-heads=2,intermediate=64,context=32";

INSTANTIATE_TEST_SUITE_P(
    Regimes, RankCounts,
    ::testing::Values(Regime{"Host", {}}, Regime{"Nvme", {"--place", "all=nvme"}},
                      Regime{"HostInBackward", {"--clip-norm", "0", "--micro-batch", "3"}},
                      Regime{"NvmeInBackwardInPasses",
                             {"--place", "all=nvme", "--clip-norm", "0", "--pass", "1"}},
                      Regime{"LlamaNvme", {"--model", kLlama, "--place", "all=nvme"}}),
    [](const auto& instance) { return instance.param.name; });

TEST_F(RanksTest, RepeatBitForBit) {
  // One arithmetic: auto measures at each start, and may choose another for a shape.
  const Options options = {"--place", "all=nvme", "--pass", "1", "--matmul-dtype", "f32"};
  const std::vector<json> first = train(3, options);
  const std::vector<json> second = train(3, options);
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    for (const char* field : {"loss", "val_loss", "grad_norm"}) {
      EXPECT_EQ(first[i][field], second[i][field]) << field << " of step " << i;
    }
  }
}

// The cases above are worth something only if three ranks do not divide the model.
TEST_F(RanksTest, PaddingIsNeededForThree) {
  train(3, {"--run", "run"});
  const json plan = json::parse(test::contents_of(path("run/plan.json")));
  EXPECT_EQ(plan["world_size"], 3);
  for (const json& unit : plan["units"]) {
    const std::int64_t elements = unit["elements"];
    const std::int64_t shard = unit["shard_elements"];
    EXPECT_EQ(shard, round_up(ceil_div(elements, std::int64_t{3}), std::int64_t{4096}));
    EXPECT_GT(3 * shard, elements);
  }
}

TEST_F(RanksTest, StoppedRankEndsTheRunAndIsNamed) {
  const ProcessResult result = end_of_run_with(SIGSTOP, 1);
  EXPECT_GT(result.exit_code, 0);
  EXPECT_PRED2(mentions, result.err, "strata: error: rank ");
  EXPECT_PRED2(mentions, result.err, ": rank 1 has not answered for 3.0 s (--comm-timeout 3 s)");
}

TEST_F(RanksTest, StoppedFirstRankEndsTheRunAndIsNamed) {
  const ProcessResult result = end_of_run_with(SIGSTOP, 0);
  EXPECT_GT(result.exit_code, 0);
  EXPECT_PRED2(mentions, result.err, ": rank 0 has not answered for 3.0 s (--comm-timeout 3 s)");
}

// mpirun sees it first and says so.
TEST_F(RanksTest, KilledRankEndsTheRunAndIsNamed) {
  const ProcessResult result = end_of_run_with(SIGKILL, 2);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_PRED2(mentions, result.err, "rank 2");
}

// The lines of Strata among those of mpirun.
std::vector<std::string> error_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("strata: error: ")) lines.push_back(line);
  }
  return lines;
}

TEST_F(RanksTest, ErrorOfOneRankEndsAll) {
  const std::string executable = wrapper("[ $rank = 2 ] && set -- \"$@\" --nvme none");
  const ProcessResult result =
      test::run_process(command(3, {"--steps", "2"}, executable), folder_.path());
  EXPECT_EQ(result.exit_code, 2);
  const std::vector<std::string> errors = error_lines(result.err);
  ASSERT_EQ(errors.size(), 1) << result.err;
  EXPECT_PRED2(mentions, errors[0],
               "rank 2: --nvme: storage directory none: there is no such directory");
}

TEST_F(RanksTest, ErrorInTheOptionsOfOneRankEndsAll) {
  const std::string executable = wrapper("[ $rank = 1 ] && set -- \"$@\" --config none.toml");
  const ProcessResult result =
      test::run_process(command(2, {"--steps", "2"}, executable), folder_.path());
  EXPECT_EQ(result.exit_code, 2);
  const std::vector<std::string> errors = error_lines(result.err);
  ASSERT_EQ(errors.size(), 1) << result.err;
  EXPECT_PRED2(mentions, errors[0], "rank 1: cannot read the config file none.toml");
}

TEST_F(RanksTest, HelpIsPrintedOnce) {
  for (const Options& help : std::vector<Options>{{"--help"}, {"train", "--help"}}) {
    const Options alone = joined({STRATA_BINARY}, help);
    const Options many = joined(program(3, STRATA_BINARY), help);
    EXPECT_EQ(error_lines(test::run_process(many, folder_.path()).err).size(), 0);
    EXPECT_EQ(test::run_process(many, folder_.path()).out.size(),
              test::run_process(alone, folder_.path()).out.size());
  }
}

TEST_F(RanksTest, ErrorOfAllIsPrintedOnce) {
  const std::vector<Options> wrong = {{"--steps", "0"},
                                      {"--steps", "2", "--device-memory", "100KiB"}};
  for (const Options& options : wrong) {
    SCOPED_TRACE(options.back());
    const ProcessResult result = test::run_process(command(3, options), folder_.path());
    EXPECT_GT(result.exit_code, 0);
    EXPECT_EQ(error_lines(result.err).size(), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(RanksTest, ErrorOfATunerOrAPlanIsPrintedOnce) {
  const std::string machine = STRATA_SOURCE_DIR "/docs/machines/workstation-24gb.json";
  const Options model = {"--model", "gpt2:layers=2,hidden=64,heads=2,context=32"};
  const std::vector<Options> wrong = {
      {"tune", "--measure", "--data", "text.txt"},
      {"tune", "--device", "cpu", "--place", "weights=everywhere"},
      {"tune", "--device", "cpu", "--device-memory", "1MiB", "--host-memory", "1MiB"},
      {"tune", "--machine", machine, "--device-memory", "1MiB"},
      {"plan", "--machine", machine, "--device-memory", "1MiB"},
      {"plan", "--device", "cpu", "--host-memory", "auto", "--data", "none.txt"}};
  for (const Options& options : wrong) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(options, " ")));
    const ProcessResult result =
        test::run_process(joined(program(2, STRATA_BINARY), joined(options, model)), path(""));
    EXPECT_GT(result.exit_code, 0);
    EXPECT_EQ(error_lines(result.err).size(), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace strata::engine

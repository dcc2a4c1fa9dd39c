// Runs with their state on NVMe as a user sees them: directories, engines, full disks, what is left
// behind and what is said of it, and the ledger of what was moved.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/io/loop_mount.h"
#include "tests/support/engine_run.h"
#include "tests/support/error_text.h"
#include "tests/support/json_lines.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::mentions;
using test::Process;
using test::ProcessResult;

constexpr int kSteps = 6;
constexpr int kForever = 1'000'000;

class NvmeRun : public ::testing::Test {
 protected:
  NvmeRun() {
    test::write_text(path("text.txt"), 8'000);
    for (const char* drive : {"a", "b"}) fs::create_directory(path(drive));
  }
  ~NvmeRun() override {
    for (const char* drive : {"a", "b"}) EXPECT_TRUE(fs::is_empty(path(drive))) << drive;
  }

  std::string path(const std::string& name) const { return folder_.path(name); }

  std::vector<std::string> command(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        STRATA_BINARY,     "train",
        "--model",         "gpt2:layers=2,hidden=64,heads=2,context=32",
        "--data",          "text.txt",
        "--steps",         std::to_string(kSteps),
        "--global-batch",  "2",
        "--place",         "all=nvme",
        "--activations",   "nvme",
        "--nvme",          "a",
        "--device-memory", "32MiB",
        "--host-memory",   "32MiB",
        "--matmul-dtype",  "f32",
        "--threads",       "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  ProcessResult train(const std::vector<std::string>& more) const {
    return test::run_process(command(more), folder_.path());
  }
  // A run that goes on until it is ended, and is past its first step.
  std::unique_ptr<Process> endless_run(std::vector<std::string> more) const {
    more.insert(more.end(), {"--steps", std::to_string(kForever), "--json"});
    auto run = std::make_unique<Process>(command(more), folder_.path());
    for (int i = 0; i < 1000 && !mentions(run->out(), "\"step\":1,"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_PRED2(mentions, run->out(), "\"step\":1,");
    return run;
  }
  // Leaves a store behind, of a run that is killed before its first checkpoint.
  void kill_a_run_in(const std::string& directory) const {
    const auto killed = endless_run({"--nvme", directory, "--run", "killed"});
    ::kill(killed->pid(), SIGKILL);
    killed->wait();
    // The kernel closes the files of a killed process's ring a moment after the process has ended.
    const std::vector<std::string> look = {STRATA_BINARY, "gc", directory, "--dry-run"};
    const auto is_stale = [&] {
      return mentions(test::run_process(look, folder_.path()).out, "stale");
    };
    for (int i = 0; i < 100 && !is_stale(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  // Losses and norms of every step, which bit-equal runs share.
  static std::vector<std::vector<double>> results_of(const ProcessResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<std::vector<double>> results;
    for (const json& line : test::json_lines(result.out)) {
      if (line.contains("step")) results.push_back({line["loss"], line["grad_norm"]});
    }
    EXPECT_EQ(results.size(), kSteps);
    return results;
  }
  int files_in(const std::string& drive) const {
    return static_cast<int>(std::distance(fs::directory_iterator(path(drive)), {}));
  }

  test::TemporaryFolder folder_;
};

TEST_F(NvmeRun, DirectoriesAndEnginesChangeNoBits) {
  const auto expected = results_of(train({"--json"}));
  EXPECT_EQ(results_of(train({"--json", "--nvme", "a,b"})), expected);
  EXPECT_EQ(results_of(train({"--json", "--nvme", "a=1GB/s,b=3GB/s"})), expected);
  EXPECT_EQ(results_of(train({"--json", "--io-engine", "threads"})), expected);
  EXPECT_EQ(results_of(train({"--json", "--io-engine", "threads", "--nvme", "a=1GB/s,b=1GB/s"})),
            expected);
}

TEST_F(NvmeRun, TheStartSaysWhichEngineAndWhy) {
  const ProcessResult result = train({"--io-engine", "threads", "--nvme", "a=1GB/s,b=1GB/s"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(mentions, result.out, "storage    ");
  EXPECT_PRED2(mentions, result.out, "\nI/O        threads");
  EXPECT_PRED2(mentions, result.out, "\nwrites     ");
}

TEST_F(NvmeRun, WrongSyntaxIsRefusedWithTheOption) {
  for (const auto& [nvme, message] :
       std::vector<std::pair<std::string, std::string>>{{"a,,b", "--nvme: 'a,,b'"},
                                                        {"a=fast", "--nvme: 'a=fast'"},
                                                        {"a,./a", "--nvme: "},
                                                        {"a,none", "--nvme: "}}) {
    const ProcessResult result = train({"--nvme", nvme});
    EXPECT_EQ(result.exit_code, 2) << nvme;
    EXPECT_PRED2(mentions, result.err, message);
  }
  const ProcessResult engine = train({"--io-engine", "io_uring"});
  EXPECT_EQ(engine.exit_code, 2);
  EXPECT_PRED2(mentions, engine.err, "--io-engine: 'io_uring' is not one of");
  const ProcessResult endurance = train({"--nvme-endurance", "600TB"});
  EXPECT_EQ(endurance.exit_code, 2);
  EXPECT_PRED2(mentions, endurance.err, "--nvme-endurance: '600TB'");
}

TEST_F(NvmeRun, AFullDiskIsRefusedAtTheStartWithTheNumbers) {
  io::LoopMount small(8 << 20);
  if (!small.mounted()) GTEST_SKIP() << "needs the right to mount";
  kill_a_run_in(small.directory());
  // gpt2 of 16 layers of 256: 12 bytes of state for each of 12.6 million parameters.
  const ProcessResult result = train({"--model", "gpt2:layers=16,hidden=256,heads=2,context=32",
                                      "--host-memory", "64MiB", "--nvme", small.directory()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  for (const std::string part : {"--nvme: ", " needed", " free", "1 stale store"}) {
    EXPECT_PRED2(mentions, result.err, part);
  }
  EXPECT_PRED2(mentions, result.err, "strata gc " + small.directory());
}

TEST_F(NvmeRun, TwoRunsShareADirectory) {
  const auto expected = results_of(train({"--json"}));
  const auto other = endless_run({"--run", "other"});
  EXPECT_EQ(files_in("a"), 1);
  EXPECT_EQ(results_of(train({"--json"})), expected);
  EXPECT_EQ(files_in("a"), 1);  // the other's, which is alive
  ::kill(other->pid(), SIGKILL);  // before its first checkpoint
  other->wait();
  for (int i = 0; i < 100 && files_in("a") > 0; ++i) {  // locked a moment longer
    test::run_process({STRATA_BINARY, "gc", "a"}, folder_.path());
  }
}

TEST_F(NvmeRun, SignalsEndARunInOrder) {
  for (const auto& [signal, name] : {std::pair(SIGINT, "SIGINT"), std::pair(SIGTERM, "SIGTERM"),
                                     std::pair(SIGUSR1, "SIGUSR1")}) {
    const auto run = endless_run({"--nvme", "a=1GB/s,b=1GB/s"});
    for (int i = 0; i < 2; ++i) ::kill(run->pid(), signal);  // as timeout(1) does
    const ProcessResult result = run->wait(std::chrono::seconds(20));
    EXPECT_EQ(result.exit_code, 128 + signal);
    EXPECT_EQ(result.err, std::string("strata: error: interrupted by ") + name + "\n");
  }
}

TEST_F(NvmeRun, AFailedRunLeavesNothing) {
  const ProcessResult result = train({"--lr", "1e6", "--clip-norm", "0", "--steps", "50"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_PRED2(mentions, result.err, "strata: error: ");
}

TEST_F(NvmeRun, AKilledRunIsReportedByTheNextAndReclaimed) {
  kill_a_run_in("a");
  ASSERT_EQ(files_in("a"), 1);

  const ProcessResult next = train({});
  EXPECT_EQ(next.exit_code, 0) << next.err;
  EXPECT_PRED2(mentions, next.out, "strata gc a");
  EXPECT_EQ(files_in("a"), 1);
  EXPECT_PRED2(mentions, test::json_lines(train({"--json"}).out)[0].dump(), "strata gc a");

  const ProcessResult gc = test::run_process({STRATA_BINARY, "gc", "a"}, folder_.path());
  EXPECT_EQ(gc.exit_code, 0) << gc.err;
  EXPECT_EQ(files_in("a"), 0);
  EXPECT_FALSE(mentions(train({}).out, "strata gc"));
}

TEST_F(NvmeRun, WithoutADirectoryStateLiesInTheRunsFolder) {
  const ProcessResult result = train({"--nvme", "", "--run", "run"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(mentions, result.out, " in run; ");
  int stores = 0;
  for (const auto& entry : fs::directory_iterator(path("run"))) {
    stores += entry.path().extension() == ".store" ? 1 : 0;
  }
  EXPECT_EQ(stores, 1);
}

TEST_F(NvmeRun, WithoutAFolderFilesHaveNoNames) {
  const auto run = endless_run({});
  EXPECT_EQ(files_in("a"), 0);
  ::kill(run->pid(), SIGKILL);
  run->wait();
  EXPECT_EQ(files_in("a"), 0);
}

std::int64_t sum(const json& by, const char* field) {
  std::int64_t bytes = 0;
  for (const json& entry : by) bytes += entry[field].get<std::int64_t>();
  return bytes;
}

TEST_F(NvmeRun, TheLedgerAddsUp) {
  const ProcessResult result = train({"--json", "--nvme", "a=1GB/s,b=1GB/s", "--nvme-endurance",
                                      "1TBW,2TBW", "--log", "log.jsonl", "--val-fraction", "0.1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json summary = test::json_lines(result.out).back();
  const json& nvme = summary["nvme"];
  for (const char* field : {"read_bytes", "written_bytes"}) {
    const json& all = summary[std::string("nvme_") + field];
    EXPECT_EQ(sum(nvme["by_kind"], field), all);
    EXPECT_EQ(sum(nvme["by_device"], field), all);
  }
  for (const char* kind :
       {"weights", "remainder", "moment1", "moment2", "gradients", "activations"}) {
    EXPECT_GT(nvme["by_kind"][kind]["written_bytes"], 0) << kind;
  }
  // Every pass is a full one here, so that the forecast is exact.
  std::int64_t written = sum(nvme["by_kind"], "written_bytes");
  EXPECT_GT(nvme["by_kind"]["measuring"]["written_bytes"], 0);
  for (const char* beside : {"measuring", "metadata"}) {
    written -= nvme["by_kind"][beside]["written_bytes"].get<std::int64_t>();
  }
  // What measures the drive is forecast up to a request, and the header not at all.
  const std::int64_t planned = nvme["planned_written_bytes"];
  EXPECT_GT(planned, written);
  EXPECT_NEAR(static_cast<double>(planned), summary["nvme_written_bytes"].get<double>(),
              2.0 * (1 << 20));

  const double endurance[] = {1e12, 2e12};
  for (int d = 0; d < 2; ++d) {
    const json& drive = nvme["by_device"][d];
    EXPECT_EQ(drive["path"], d == 0 ? "a" : "b");
    EXPECT_GT(drive["written_bytes"], 0);
    const double share = drive["written_bytes"].get<double>() / endurance[d];
    EXPECT_DOUBLE_EQ(drive["life_share"], share);
    // At this share in a run that takes longer than its steps and no longer than the program.
    const double run_s = drive["life_years"].get<double>() * share * 365.25 * 86400;
    EXPECT_GT(run_s, (summary["steps"].get<double>() - 1) * summary["mean_step_s"].get<double>());
    EXPECT_LT(run_s, summary["wall_s"].get<double>() * 1.01 + 0.01);
  }

  // The log has the sums at each line; the last step's are complete but for what ends the run.
  std::int64_t before = 0;
  for (const json& line : test::json_lines(test::contents_of(path("log.jsonl")))) {
    const std::int64_t weights = line["nvme_by_kind"]["weights"][1];
    EXPECT_GT(weights, before) << line["step"];
    before = weights;
    EXPECT_EQ(line["nvme_by_device"].size(), 2);
  }
  EXPECT_EQ(nvme["by_kind"]["weights"]["written_bytes"], before);
}

TEST_F(NvmeRun, TheSummaryShowsTheLedger) {
  const ProcessResult result = train({"--nvme-endurance", "600TBW"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {" of the life of a (600 TBW)", "NVMe bytes", "    moment2 ", "    in a ",
                           " of its life (600 TBW), which at this rate would be "}) {
    EXPECT_PRED2(mentions, result.out, part);
  }
}

}  // namespace
}  // namespace strata::engine

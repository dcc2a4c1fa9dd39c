// The budgets are real: a model with 4.3 GB of state trains in 1 GiB, as the system counts it.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/bytes.h"
#include "tests/support/engine_run.h"
#include "tests/support/json_lines.h"
#include "tests/support/memory_group.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

constexpr std::int64_t kBudgetBytes = 512 * kMiB;   // of device and host memory each
constexpr std::int64_t kProgramBytes = 200 * kMiB;  // code, libraries, stacks, metadata
constexpr std::int64_t kCapBytes = 2 * kBudgetBytes + kProgramBytes;
constexpr int kSteps = 3;

// One run for all tests, in a memory control group of the cap where that is permitted.
class MemoryCap : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder.emplace();
    group.emplace(kCapBytes);
    test::write_tokens(folder->path("tokens.bin"), 4096, 50257);
    std::filesystem::create_directory(folder->path("nvme"));
    const std::string join = group->made() ? "echo $$ > " + group->processes_file() + " && " : "";
    result = test::Process({"sh",
                            "-c",
                            join + "exec \"$0\" \"$@\"",
                            STRATA_BINARY,
                            "train",
                            "--model",
                            "gpt2-355m",
                            "--data",
                            "tokens.bin",
                            "--steps",
                            std::to_string(kSteps),
                            "--global-batch",
                            "1",
                            "--micro-batch",
                            "1",
                            "--seq-len",
                            "512",
                            "--device-memory",
                            "512MiB",
                            "--host-memory",
                            "512MiB",
                            "--nvme",
                            "nvme",
                            "--run",
                            "run",
                            "--json"},
                           folder->path())
                 .wait(std::chrono::seconds(240));
  }
  static void TearDownTestSuite() {
    group.reset();
    folder.reset();
  }

  static inline std::optional<test::TemporaryFolder> folder;
  static inline std::optional<test::MemoryGroup> group;
  static inline test::ProcessResult result;
};

TEST_F(MemoryCap, IsKeptAsTheSystemCountsIt) {
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(test::json_lines(test::contents_of(folder->path("run/log.jsonl"))).size(), kSteps);
  EXPECT_LE(result.peak_resident_bytes, kCapBytes);
}

// 26 bytes of NVMe traffic per parameter and step show that the state was not in memory; some of it
// fits the budgets.
TEST_F(MemoryCap, StateIsStreamed) {
  ASSERT_EQ(result.exit_code, 0) << result.err;
  constexpr std::int64_t kParameters = 354'823'168;  // GPT-2 medium, as published
  for (const auto& step : test::json_lines(test::contents_of(folder->path("run/log.jsonl")))) {
    const std::int64_t moved = step["nvme_read_bytes"].get<std::int64_t>() +
                               step["nvme_written_bytes"].get<std::int64_t>();
    EXPECT_GT(moved, 20 * kParameters);
  }
}

TEST_F(MemoryCap, PeaksAreThePlans) {
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto plan = nlohmann::json::parse(test::contents_of(folder->path("run/plan.json")));
  for (const auto& step : test::json_lines(test::contents_of(folder->path("run/log.jsonl")))) {
    EXPECT_EQ(step["device_peak_bytes"], plan["tiers"]["device"]["total_bytes"]);
    EXPECT_EQ(step["host_peak_bytes"], plan["tiers"]["host"]["total_bytes"]);
  }
}

TEST_F(MemoryCap, SurvivesAControlGroupOfItsSize) {
  if (!group->made()) GTEST_SKIP() << "needs the right to make a memory control group";
  EXPECT_NE(result.exit_code, -1) << "killed";
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

}  // namespace
}  // namespace strata::engine

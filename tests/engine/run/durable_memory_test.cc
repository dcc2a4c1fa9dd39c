// What goes on from a store, or reads one, takes no more memory than training: with state 4 times
// the budgets, as the system counts it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/bytes.h"
#include "tests/support/engine_run.h"
#include "tests/support/forced_arithmetic.h"
#include "tests/support/memory_group.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using Arguments = std::vector<std::string>;

constexpr std::int64_t kDeviceBytes = 48 * kMiB;
constexpr std::int64_t kHostBytes = 128 * kMiB;
constexpr std::int64_t kProgramBytes = 200 * kMiB;  // as memory_cap_test.cc allows for training
constexpr std::int64_t kCapBytes = kDeviceBytes + kHostBytes + kProgramBytes;
// Beyond the peak of training, which reaches the same plan: what a start reads of a store, its
// manifest and tables, and what the allocator makes of that.
constexpr std::int64_t kMoreThanTrainingBytes = 16 * kMiB;

// In a memory control group of the cap where that is permitted.
class DurableMemory : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    folder.emplace();
    group.emplace(kCapBytes);
    test::write_text(folder->path("text.txt"), 20'000);
    for (const char* drive : {"a", "b"}) folder->make_folder(drive);
    trained = train({"--nvme", "a", "--steps", "2", "--checkpoint-to", "copies"});
  }
  static void TearDownTestSuite() {
    group.reset();
    folder.reset();
  }
  void SetUp() override { ASSERT_EQ(trained.exit_code, 0) << trained.err; }

  static test::ProcessResult in_group(const Arguments& arguments) {
    const std::string join = group->made() ? "echo $$ > " + group->processes_file() + " && " : "";
    Arguments shell = {"sh", "-c", join + "exec \"$0\" \"$@\""};
    shell.insert(shell.end(), arguments.begin(), arguments.end());
    return test::Process(shell, folder->path()).wait(std::chrono::seconds(120));
  }
  // 63 million parameters and 12 bytes of state for each, in the run "run" unless `more` says
  // otherwise.
  static Arguments train_command(const Arguments& more) {
    Arguments command = {STRATA_BINARY,
                         "train",
                         "--model",
                         "gpt2:layers=20,hidden=512,heads=8,context=64,vocab=256",
                         "--data",
                         "text.txt",
                         "--run",
                         "run",
                         "--checkpoint-every",
                         "1",
                         "--global-batch",
                         "2",
                         "--lr-schedule",
                         "constant",
                         "--matmul-dtype",
                         test::forced_arithmetic("bf16"),
                         "--device-memory",
                         format_bytes(kDeviceBytes),
                         "--host-memory",
                         format_bytes(kHostBytes),
                         "--chunk-size",
                         "1MiB",
                         "--prefetch",
                         "1",
                         "--json"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  static test::ProcessResult train(const Arguments& more) { return in_group(train_command(more)); }

  static std::string newest_copy() {
    std::string newest;
    for (const auto& entry : std::filesystem::directory_iterator(folder->path("copies"))) {
      newest = std::max(newest, "copies/" + entry.path().filename().string());
    }
    return newest;
  }
  static void expect_no_more_than_training(const test::ProcessResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_LE(result.peak_resident_bytes, trained.peak_resident_bytes + kMoreThanTrainingBytes);
  }

  static inline std::optional<test::TemporaryFolder> folder;
  static inline std::optional<test::MemoryGroup> group;
  static inline test::ProcessResult trained;  // with portable checkpoints on the way
};

TEST_F(DurableMemory, TrainingWithPortableCheckpointsKeepsTheCap) {
  EXPECT_LE(trained.peak_resident_bytes, kCapBytes);
  EXPECT_GE(std::filesystem::file_size(folder->path(newest_copy() + "/model.safetensors")),
            2u * 63'000'000);
}

TEST_F(DurableMemory, ResumingInPlace) {
  expect_no_more_than_training(train({"--nvme", "a", "--steps", "3", "--resume"}));
}

TEST_F(DurableMemory, ResumingInANewStore) {
  expect_no_more_than_training(train({"--nvme", "b", "--steps", "4", "--resume"}));
}

TEST_F(DurableMemory, StartingFromAPortableCheckpoint) {
  expect_no_more_than_training(
      train({"--nvme", "a", "--run", "from", "--steps", "5", "--resume-from", newest_copy()}));
}

TEST_F(DurableMemory, Verifying) {
  expect_no_more_than_training(in_group({STRATA_BINARY, "verify", "run"}));
}

TEST_F(DurableMemory, Exporting) {
  expect_no_more_than_training(
      in_group({STRATA_BINARY, "export", "run", "exported", "--with-optimizer"}));
}

TEST_F(DurableMemory, ResumingTwoRanksOnOne) {
  Arguments two = {"mpirun", "--oversubscribe", "-n", "2"};
  // For each: a rank's share of host memory is that of a whole machine.
  const Arguments command = train_command({"--nvme", "b", "--run", "ranks", "--steps", "2",
                                           "--host-memory", format_bytes(2 * kHostBytes)});
  two.insert(two.end(), command.begin(), command.end());
  const test::ProcessResult result =
      test::Process(two, folder->path()).wait(std::chrono::seconds(120));
  if (result.exit_code == 127) GTEST_SKIP() << "no mpirun here";
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_no_more_than_training(
      train({"--nvme", "b", "--run", "ranks", "--steps", "3", "--resume"}));
}

}  // namespace
}  // namespace strata::engine

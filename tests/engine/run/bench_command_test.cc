// Commands about the machine as a user runs them: exit codes, and what an interrupt leaves behind.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/support/error_text.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::mentions;
using test::TemporaryFolder;

TEST(BenchCommand, AnInterruptLeavesNothingBehind) {
  const TemporaryFolder folder;
  test::Process process({STRATA_BINARY, "bench", "io", "--nvme", folder.path(), "--file-size",
                         "8MiB", "--blocks", "64KiB", "--depths", "1,2", "--cell-seconds", "0.2",
                         "--modes", "read,write,mixed,read,write,mixed,read,write,mixed"},
                        folder.path());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!mentions(process.out(), "\nread ") && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(::kill(process.pid(), SIGINT), 0);
  const test::ProcessResult result = process.wait();
  EXPECT_NE(result.exit_code, 0);
  EXPECT_FALSE(mentions(result.out, "for a run"));  // it was still measuring
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BenchCommand, ADirectoryThatCannotBeUsedIsOneClearLine) {
  const TemporaryFolder folder;
  const std::string absent = folder.path("absent");
  const test::ProcessResult result =
      test::run_process({STRATA_BINARY, "bench", "io", "--nvme", absent}, folder.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "strata: error: --nvme: storage directory " + absent +
                            ": there is no such directory; create it or give another\n");
}

TEST(DoctorCommand, SaysSoWhenTrainingIsImpossible) {
  const TemporaryFolder folder;
  const auto doctor = [&](const std::string& directory) {
    return test::run_process({STRATA_BINARY, "doctor", "--nvme", directory}, folder.path());
  };
  const test::ProcessResult good = doctor(folder.path());
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_PRED2(mentions, good.out, "Training works here.");
  const test::ProcessResult bad = doctor(folder.path("absent"));
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_PRED2(mentions, bad.out, "problem  storage");
}

}  // namespace
}  // namespace strata::engine

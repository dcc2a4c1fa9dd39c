// Tests that start their executable again under mpirun, as ranks that play a role, and check how
// they end and what they print.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "kernels/base/error.h"

namespace strata::comm {

struct Outcome {
  int status = -1;
  std::string output;
};

inline Outcome launch(int ranks, const std::string& role, std::int64_t piece_bytes = 1000) {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  // In sanitizer builds: OpenMPI 4.1 leaks at exit and takes its TCP locks in two orders.
  setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
  setenv("TSAN_OPTIONS", "detect_deadlocks=0", 0);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = fmt::format(
      "timeout --kill-after=5 45 mpirun --oversubscribe --bind-to none -n {} '{}' {} {} 2>&1",
      ranks, self, role, piece_bytes);
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  while (const std::size_t bytes = std::fread(buffer, 1, sizeof(buffer), pipe)) {
    outcome.output.append(buffer, bytes);
  }
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

class RankTest : public testing::Test {
 protected:
  static constexpr int kTimedOut = 124;  // timeout(1)

  // "" when this build and this machine can run ranks.
  inline static std::string obstacle;
  static void SetUpTestSuite() {
    if (std::system("command -v mpirun >/dev/null") != 0) {
      obstacle = "no mpirun here";
    } else if (launch(1, "idle").output.find("without MPI") != std::string::npos) {
      obstacle = "this build is without MPI";
    }
  }
  void SetUp() override {
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  }
  static void expect_end_with(const Outcome& outcome, const std::string& text) {
    EXPECT_NE(outcome.status, 0);
    EXPECT_NE(outcome.status, kTimedOut);
    EXPECT_NE(outcome.output.find(text), std::string::npos) << "no '" << text << "' in:\n"
                                                            << outcome.output;
  }
  static void expect_success(const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.output;
  }
};

}  // namespace strata::comm

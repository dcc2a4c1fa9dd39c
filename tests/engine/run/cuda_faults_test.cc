// A call of CUDA that fails, wherever it is in a run, ends the run with one clear error; where the
// run does not need it, the run's results are the same.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>

#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

using test::ProcessResult;

constexpr int kSteps = 2;
constexpr unsigned kSeed = 1;

// Errors of each library's own type.
int error_of(const std::string& function) {
  constexpr int kOutOfMemory = 2;
  constexpr int kExecutionFailed = 13;  // of cuBLASLt
  constexpr int kIllegalAddress = 700;
  constexpr int kUnknown = 999;
  if (function == "work") return kIllegalAddress;
  if (function.starts_with("cublasLt")) return kExecutionFailed;
  return function == "cudaMalloc" || function == "cudaHostRegister" ? kOutOfMemory : kUnknown;
}

// What gives something back may fail unseen: the run has its results.
bool gives_back(const std::string& function) {
  return function == "cudaFree" || function == "cudaHostUnregister" ||
         function.ends_with("Destroy");
}

class CudaFaults : public DurableRuns {
 protected:
  CudaFaults() : DurableRuns(kSteps) {
    ::setenv("STRATA_CUDA_BACKEND", STRATA_SIMULATED_BACKEND, 1);
  }
  ~CudaFaults() override {
    ::unsetenv("STRATA_SIM_FAULT");
    ::unsetenv("STRATA_SIM_CALLS");
  }

  ProcessResult train_on_cuda(const std::string& run) const {
    return train(run, {"--device", "cuda", "--model", "gpt2:layers=1,hidden=32,heads=2,context=32",
                       "--matmul-dtype", "auto", "--device-memory", "320MiB", "--place", "all=nvme",
                       "--activations", "nvme", "--warmup", "0"});
  }
};

TEST_F(CudaFaults, EveryCallThatFailsEndsInOneErrorOrChangesNothing) {
  ::setenv("STRATA_SIM_CALLS", path("calls").c_str(), 1);
  const ProcessResult whole = train_on_cuda("whole");
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  ::unsetenv("STRATA_SIM_CALLS");
  const Results expected = results_of("whole");
  std::map<std::string, int> calls;
  std::ifstream file(path("calls"));
  for (auto [function, count] = std::pair<std::string, int>(); file >> function >> count;) {
    calls[function] = count;
  }
  for (const char* function : {"cudaMalloc", "cudaLaunchKernelExC", "cublasLtMatmul", "work"}) {
    EXPECT_GT(calls[function], 0) << function;
  }

  std::mt19937 random(kSeed);
  for (const auto& [function, count] : calls) {
    const int between = std::uniform_int_distribution(1, count)(random);
    for (const int nth : std::set{1, between, count}) {
      SCOPED_TRACE(fmt::format("call {} of {} of {}", nth, count, function));
      const std::string run = fmt::format("{}-{}", function, nth);
      const std::string fault = fmt::format("{}:{}:{}", function, nth, error_of(function));
      ::setenv("STRATA_SIM_FAULT", fault.c_str(), 1);
      const ProcessResult result = train_on_cuda(run);
      if (nth == 1) {
        EXPECT_EQ(result.exit_code == 0, gives_back(function));
      }
      if (result.exit_code == 0) {
        EXPECT_EQ(results_of(run), expected);
        continue;
      }
      EXPECT_GT(result.exit_code, 0) << "ended by a signal\n" << result.err;
      EXPECT_TRUE(result.err.starts_with("strata: error: ")) << result.err;
      EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    }
  }
}

}  // namespace
}  // namespace strata::engine

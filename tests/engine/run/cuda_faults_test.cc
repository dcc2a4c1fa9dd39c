// A call of CUDA that fails, wherever it is in a run, ends the run with one clear error; where the
// run does not need it, the run's results are the same.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

using test::ProcessResult;

constexpr int kSteps = 2;
constexpr unsigned kSeed = 1;
constexpr int kFunctionsWithinSteps = 8;   // a run takes seconds: it measures first
using Calls = std::map<std::string, int>;  // of each function

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
         function == "cudaDeviceSynchronize" || function.ends_with("Destroy");
}

class CudaFaults : public DurableRuns {
 protected:
  CudaFaults() : DurableRuns(kSteps) {
    ::setenv("STRATA_CUDA_BACKEND", STRATA_SIMULATED_BACKEND, 1);
  }
  ~CudaFaults() override {
    for (const char* const name : {"STRATA_SIM_FAULT", "STRATA_SIM_FROM"}) ::unsetenv(name);
  }

  ProcessResult train_on_cuda(const std::string& run) const {
    return train(run, {"--device", "cuda", "--model", "gpt2:layers=1,hidden=32,heads=2,context=32",
                       "--matmul-dtype", "auto", "--device-memory", "320MiB", "--place", "all=nvme",
                       "--activations", "nvme", "--warmup", "0"});
  }

  // From when the run has a log: when it begins its steps.
  void count_from_steps_of(const std::string& run) const {
    ::setenv("STRATA_SIM_FROM", path(run + "/log.jsonl").c_str(), 1);
  }

  // Of a run without faults.
  Calls calls_of(const std::string& run) const {
    ::setenv("STRATA_SIM_CALLS", path("calls").c_str(), 1);
    const ProcessResult result = train_on_cuda(run);
    ::unsetenv("STRATA_SIM_CALLS");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    Calls calls;
    std::ifstream file(path("calls"));
    for (std::string function; file >> function;) file >> calls[function];
    return calls;
  }

  // Whether the run ended with an error.
  bool fails_with(const std::string& run, const std::string& function, int nth,
                  const Results& results) const {
    const std::string fault = fmt::format("{}:{}:{}", function, nth, error_of(function));
    ::setenv("STRATA_SIM_FAULT", fault.c_str(), 1);
    const ProcessResult result = train_on_cuda(run);
    if (result.exit_code == 0) {
      EXPECT_EQ(results_of(run), results);
      return false;
    }
    EXPECT_GT(result.exit_code, 0) << "ended by a signal\n" << result.err;
    EXPECT_TRUE(result.err.starts_with("strata: error: ")) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    return true;
  }
};

TEST_F(CudaFaults, EndTheRunInOneErrorFromItsFirstCallOn) {
  const Calls calls = calls_of("whole");
  EXPECT_GT(calls.size(), 20u);
  for (const auto& [function, count] : calls) {
    SCOPED_TRACE(function);
    if (gives_back(function)) continue;
    EXPECT_TRUE(fails_with(function, function, 1, {}));
  }
}

TEST_F(CudaFaults, WithinStepsEndTheRunOrChangeNothing) {
  count_from_steps_of("whole");
  const Calls calls = calls_of("whole");
  for (const char* const function : {"cudaLaunchKernelExC", "cublasLtMatmul", "work"}) {
    EXPECT_TRUE(calls.contains(function)) << function;
  }
  std::mt19937 random(kSeed);
  std::vector<std::pair<std::string, int>> some;
  std::ranges::sample(calls, std::back_inserter(some), kFunctionsWithinSteps, random);
  for (const auto& [function, count] : some) {
    const int nth = std::uniform_int_distribution(1, count)(random);
    SCOPED_TRACE(fmt::format("call {} of {} of {}, seed {}", nth, count, function, kSeed));
    count_from_steps_of(function);
    (void)fails_with(function, function, nth, results_of("whole"));
  }
}

}  // namespace
}  // namespace strata::engine

// strata train --device cuda, with the backend that has the simulated device in it: the same bits
// wherever state lies and however it moves, and those of the cpu device within rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/run/cuda_runs.h"

namespace strata::engine {
namespace {

using test::mentions;
using test::ProcessResult;

constexpr int kSteps = 3;

class CudaTrain : public CudaRuns {
 protected:
  CudaTrain() : CudaRuns(kSteps) {}
};

// The tolerance is of losses, relative to the cpu device's: bf16 rounds each of the few activations
// on a path by up to 4e-3.
struct Case {
  std::string precision;
  double tolerance;
};

class CudaTrainIn : public CudaTrain, public ::testing::WithParamInterface<Case> {};

TEST_P(CudaTrainIn, BitsDependNeitherOnTiersNorOnStopping) {
  const Words words = Words{"--device", "cuda"} + small_model(GetParam().precision);
  complete("device", words + placed("device"));
  const Results expected = results_of("device");
  const std::string weights = weights_of("device");
  ASSERT_FALSE(weights.empty());
  const std::vector<std::pair<std::string, Words>> regimes = {
      {"host", placed("host")},
      {"nvme", placed("nvme") + Words{"--prefetch", "0"}},
      {"ahead", placed("nvme") + Words{"--prefetch", "2"}},
      {"kept", placed("host") + Words{"--recompute", "off"}}};
  for (const auto& [run, more] : regimes) {
    SCOPED_TRACE(run);
    complete(run, words + more);
    EXPECT_EQ(results_of(run), expected);
    EXPECT_EQ(weights_of(run), weights);
  }
  complete("stopped", words + placed("nvme") + Words{"--steps", "2"});
  complete("stopped", words + placed("device") + Words{"--resume"});
  EXPECT_EQ(results_of("stopped"), expected);
  EXPECT_EQ(weights_of("stopped"), weights);
}

TEST_P(CudaTrainIn, LossesAreThoseOfTheCpuDeviceWithinRounding) {
  const Words words = small_model(GetParam().precision);
  for (const char* device : {"cpu", "cuda"}) complete(device, words + Words{"--device", device});
  const Results cpu = results_of("cpu");
  const Results cuda = results_of("cuda");
  ASSERT_EQ(cpu.size(), cuda.size());
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    EXPECT_NEAR(cuda[i][1], cpu[i][1], GetParam().tolerance * cpu[i][1]) << "step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaTrainIn,
                         ::testing::Values(Case{"f32", 1e-4}, Case{"bf16", 2e-2}),
                         [](const auto& info) { return info.param.precision; });

TEST_F(CudaTrain, AutoIsCudaAndSaysSoAndARunStaysOnItsDevice) {
  const ProcessResult result = train("run", small_model("f32") + Words{"--device", "auto"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(mentions, result.out, "\ndevice     cuda, ");
  EXPECT_PRED2(mentions, result.out, "auto: there is a GPU");
  const ProcessResult planned =
      strata(Words{"plan", "--data", "text.txt", "--device", "auto"} + small_model("f32"));
  EXPECT_PRED2(mentions, planned.out, "\ndevice     cuda; auto: there is a GPU\n") << planned.err;
  EXPECT_PRED2(mentions, result.out, "time of a step, at least");
  expect_refused("run", small_model("f32") + Words{"--resume", "--steps", "4", "--device", "cpu"},
                 2, {"--device was 'cuda' and is now 'cpu'", "--allow-change device"});
  complete("run", small_model("f32") + Words{"--resume", "--steps", "4"});
  EXPECT_EQ(logged("run").size(), 4u);
}

// Greedily: the same tokens, where none is nearly as likely.
TEST_F(CudaTrain, ReadsAModelAsTheCpuDeviceDoes) {
  complete("run", small_model("f32") + Words{"--device", "cpu"});
  const auto output_on = [&](const char* device, const Words& command) {
    const Words more = {
        "--model", "run",           "--device", device,      "--json", "--device-memory",
        "320MiB",  "--host-memory", "64MiB",    "--threads", "1"};
    const ProcessResult result = strata(command + more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  };
  const Words eval = {"eval", "--data", "text.txt", "--eval-batches", "4"};
  const double cpu_loss = output_on("cpu", eval).at("loss");
  const double cuda_loss = output_on("cuda", eval).at("loss");
  EXPECT_NEAR(cuda_loss, cpu_loss, kF32Tolerance * cpu_loss);
  const Words generate = {"generate", "--prompt",      "a tier ", "--max-tokens",
                          "8",        "--temperature", "0"};
  EXPECT_EQ(output_on("cuda", generate).at("text"), output_on("cpu", generate).at("text"));
}

TEST_F(CudaTrain, WhatTheDeviceCannotDoIsRefusedAtOnce) {
  const auto error_with = [&](const Words& more) {
    const ProcessResult result =
        train("refused", small_model("bf16") + Words{"--device", "cuda"} + more);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_PRED2(mentions, error_with({"--matmul-dtype", "f32"}), "--matmul-dtype");
  EXPECT_PRED2(mentions, error_with({"--device-memory", "1TiB"}), "--device-memory asks for");
  EXPECT_PRED2(mentions, error_with({"--device-memory", "200MiB"}), "device memory is short by");
  ::setenv("STRATA_CUDA_BACKEND", "/no/such/backend.so", 1);
  EXPECT_PRED2(mentions, error_with({}), "/no/such/backend.so");
}

}  // namespace
}  // namespace strata::engine

// What is known of the time of a step on a GPU: rates, bound, prediction, profile; and what is
// chosen by them.
#include <stdlib.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/plan/memory_budgets.h"
#include "engine/profile/span_meaning.h"
#include "tests/engine/run/cuda_runs.h"

namespace strata::engine {
namespace {

using nlohmann::json;
using test::mentions;
using test::ProcessResult;

constexpr int kSteps = 3;

class CudaRates : public CudaRuns {
 protected:
  CudaRates() : CudaRuns(kSteps) { ::setenv("XDG_CACHE_HOME", path("cache").c_str(), 1); }

  static Words on_gpu() { return Words{"--device", "cuda"} + small_model("f32"); }
  // What tune and plan have of a run.
  static Words planned() {
    return Words{"--data", "text.txt",       "--steps", "2",      "--threads",
                 "1",      "--global-batch", "2",       "--nvme", ".",
                 "--json", "--host-memory",  "64MiB"};
  }
  json output_of(const Words& command) const {
    const ProcessResult result = strata(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
};

bool is_positive(const json& number) { return number.is_number() && number.get<double>() > 0; }

TEST_F(CudaRates, AStepHasABoundAndAShareOfThePeak) {
  const ProcessResult result = train("run", on_gpu() + placed("host") + Words{"--profile"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"time of a step, at least", "\n  GPU ", "\n  to device ", "x bound"}) {
    EXPECT_PRED2(mentions, result.out, part);
  }
  EXPECT_FALSE(mentions(result.out, "\n    matmul ")) << "work of the cores";
  const std::vector<json> log = test::json_lines(test::contents_of(path("run/log.jsonl")));
  ASSERT_EQ(log.size(), static_cast<std::size_t>(kSteps));
  for (std::size_t step = 1; step < log.size(); ++step) {  // the first one has no update in it
    EXPECT_PRED1(is_positive, log[step].at("bound_s")) << step;
    EXPECT_PRED1(is_positive, log[step].at("mfu")) << step;
  }
}

TEST_F(CudaRates, ProfilesHaveTheStreamsOfTheGpuAndSumUpToTheStep) {
  const ProcessResult result =
      train("run", on_gpu() + placed("nvme") + Words{"--profile", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<json> lines = test::json_lines(result.out);
  const auto found =
      std::ranges::find_if(lines, [](const json& line) { return line.contains("profile"); });
  ASSERT_NE(found, lines.end());
  const json& median = found->at("profile").at("median");
  std::map<std::string, json> work_of;
  for (const json& row : median.at("rows")) {
    double sum_s = 0;
    for (const char* part : {"work", "idle"}) {
      for (const auto& [kind, seconds] : row.at(part).items()) sum_s += seconds.get<double>();
    }
    EXPECT_NEAR(sum_s, median.at("wall_s").get<double>(), 1e-9 * kIdles) << row;
    work_of[row.at("row")] = row.at("work");
  }
  for (const char* op : {"linear_forward", "linear_backward_weight", "attention_backward",
                         "layernorm_forward", "cross_entropy_backward"}) {
    EXPECT_PRED1(is_positive, work_of["compute"].value(op, 0.0)) << op;
  }
  EXPECT_PRED1(is_positive, work_of["h2d"].value("copy", 0.0));
  EXPECT_PRED1(is_positive, work_of["d2h"].value("copy", 0.0));
  EXPECT_FALSE(work_of["cores"].contains("compute"));
}

TEST_F(CudaRates, TuneNamesCommandsThatRun) {
  const json tuned = output_of(Words{"tune", "--plans", "2"} + on_gpu() + planned());
  ASSERT_FALSE(tuned.at("plans").empty());
  for (const json& plan : tuned.at("plans")) {
    EXPECT_PRED1(is_positive, plan.at("bound_s"));
    EXPECT_GE(plan.at("step_s").get<double>(), plan.at("bound_s").get<double>() * (1 - 1e-9));
  }
  const Words arguments = tuned.at("plans")[0].at("arguments");
  const ProcessResult result = strata(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(mentions, result.out, "device     cuda, ");
  // The rates are kept, and used without another measurement.
  EXPECT_PRED1(is_positive,
               output_of(Words{"plan"} + on_gpu() + planned()).at("machine").at("step_s"));
}

TEST_F(CudaRates, WhatTuneTakesOfAGpuLeavesRoomForTheContext) {
  const Words model = {"--device",   "cuda",    "--place",
                       "all=device", "--model", "gpt2:layers=2,hidden=32,heads=2,context=32"};
  Words arguments =
      output_of(Words{"tune", "--plans", "1"} + model + planned()).at("plans")[0].at("arguments");
  arguments.front() = "plan";
  const json device = output_of(arguments + Words{"--json"}).at("tiers").at("device");
  const std::int64_t left =
      device.at("budget_bytes").get<std::int64_t>() - device.at("total_bytes").get<std::int64_t>();
  EXPECT_GE(left, kContextSlackBytes);
  EXPECT_LT(left, kContextSlackBytes + kMiB);
}

// Trials are processes, which have the GPU for themselves.
TEST_F(CudaRates, TuneTrainsWithItsPlans) {
  const json report = output_of(Words{"tune", "--plans", "1", "--measure"} + on_gpu() + planned());
  const json& measured = report.at("plans")[0].at("measured");
  EXPECT_TRUE(measured.at("failures").empty()) << measured;
  EXPECT_PRED1(is_positive, measured.at("median_s"));
}

TEST_F(CudaRates, AutoMemoryComputesTheSameBits) {
  const Words words = on_gpu() + Words{"--nvme", "."};
  complete("given", words + placed("nvme"));
  const ProcessResult result =
      train("auto", words + Words{"--device-memory", "auto", "--host-memory", "auto"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_PRED2(mentions, result.err, "auto: ");
  EXPECT_EQ(results_of("auto"), results_of("given"));
  EXPECT_EQ(weights_of("auto"), weights_of("given"));
}

}  // namespace
}  // namespace strata::engine

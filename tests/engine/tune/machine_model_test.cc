// Which of a machine's rates a plan is judged by, and what two models of it say in the mean.
#include "engine/tune/machine_model.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/tune/repeated_forecast.h"
#include "tests/engine/tune/tiny_search.h"

namespace strata::test {
namespace {

using engine::MachineModel;
using engine::RankedPlan;

RankedPlan tiny_plan(const std::string& moments) {
  return tiny_search({"--nvme", "x", "--place", "all=nvme", "--moments", moments}, {}, 1).front();
}

// Nothing but updates takes time.
MachineModel of_updates(double bytes_per_s) {
  MachineModel machine;
  machine.of_micro_batch[1].rates.optimizer_bytes_per_s = bytes_per_s;
  return machine;
}

TEST(MachineModel, UpdatesTakeWhatTheyTakeInTheFormatsOfThePlan) {
  MachineModel machine = of_updates(1e9);
  machine.optimizer_bytes_per_s[{"int8", "f32"}] = 1e8;
  for (const std::string moments : {"f32", "bf16", "int8"}) {
    const engine::RunSetup setup = tiny_plan(moments).setup;
    std::int64_t bytes = 0;
    for (const auto& phase : setup.plan.traffic) bytes += phase.optimizer_bytes;
    const double expected_s = static_cast<double>(bytes) / (moments == "int8" ? 1e8 : 1e9);
    EXPECT_DOUBLE_EQ(machine.step_model().cost(setup).bound_s(), expected_s) << moments;
    EXPECT_NEAR(machine.step_model().predict(setup).step_s, expected_s, 1e-9 * expected_s);
  }
}

TEST(MachineModel, WhatSlowsOpsDownSlowsUpdatesDownToo) {
  MachineModel machine = of_updates(1e9);
  const engine::RunSetup setup = tiny_plan("f32").setup;
  const double step_s = machine.step_model().predict(setup).step_s;
  const double bound_s = machine.step_model().cost(setup).bound_s();
  machine.of_micro_batch[1].compute.slowdown = 1.5;
  EXPECT_NEAR(machine.step_model().predict(setup).step_s, 1.5 * step_s, 1e-9 * step_s);
  EXPECT_DOUBLE_EQ(machine.step_model().cost(setup).bound_s(), bound_s);
  machine.of_micro_batch[1].rates.gpu = engine::GpuRates{};  // the ops are not the cores'
  EXPECT_NEAR(machine.step_model().predict(setup).step_s, step_s, 1e-9 * step_s);
}

TEST(RepeatedForecast, TheBoundIsThatOfTheMedianToo) {
  const MachineModel before = of_updates(1e9);
  std::vector<RankedPlan> plans = {tiny_plan("f32")};
  RankedPlan& plan = plans.front();
  plan.cost = before.step_model().cost(plan.setup);
  plan.prediction = before.step_model().predict(plan.setup);
  const double bound_s = plan.cost.bound_s();
  const double step_s = plan.prediction.step_s;
  engine::RepeatedForecast forecast(plans);
  forecast.add(of_updates(25e7).step_model());  // four times as long
  forecast.add(of_updates(5e8).step_model());   // twice
  EXPECT_EQ(forecast.times(), 3U);
  EXPECT_NEAR(forecast.spread(), 3, 1e-9);
  EXPECT_NEAR(forecast.medians_s().front(), 2 * step_s, 1e-9 * step_s);
  forecast.take_median();
  EXPECT_NEAR(plan.cost.bound_s(), 2 * bound_s, 1e-9 * bound_s);
  EXPECT_NEAR(plan.prediction.step_s, 2 * step_s, 1e-9 * step_s);
  EXPECT_NEAR(plan.prediction.busy(engine::Resource::cores), 2 * step_s, 1e-9 * step_s);
}

}  // namespace
}  // namespace strata::test

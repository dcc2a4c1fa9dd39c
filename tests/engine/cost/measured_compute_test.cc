// What layers cost, measured on small models of both families: every kind of work that a layer has
// takes time, others take none, and the memory is given back.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "engine/cost/compute_cost.h"
#include "tests/engine/cost/small_machine.h"

namespace strata::engine {
namespace {

struct Layer {
  const char* name;
  const WorkSeconds& seconds;
};

// An embedding has no product.
void expect_measured(const ComputeCost& cost, bool recompute) {
  const auto positive = [](double seconds) { return std::isfinite(seconds) && seconds > 0; };
  for (const auto& [name, seconds] :
       {Layer{"block forward", cost.block_forward}, Layer{"block backward", cost.block_backward},
        Layer{"head forward", cost.head_forward}, Layer{"head backward", cost.head_backward}}) {
    EXPECT_PRED1(positive, seconds[Work::matmul]) << name;
    EXPECT_PRED1(positive, seconds[Work::elementwise]) << name;
  }
  EXPECT_PRED1(positive, cost.block_forward[Work::attention]);
  EXPECT_PRED1(positive, cost.block_backward[Work::attention]);
  EXPECT_EQ(cost.head_forward[Work::attention] + cost.head_backward[Work::attention], 0);
  for (const WorkSeconds& seconds : {cost.embedding_forward, cost.embedding_backward}) {
    EXPECT_PRED1(positive, seconds[Work::elementwise]);
    EXPECT_EQ(seconds.total(), seconds[Work::elementwise]);
  }
  for (const Work work : {Work::matmul, Work::attention, Work::elementwise}) {
    EXPECT_EQ(cost.block_recompute[work] > 0, recompute) << name_of(work);
  }
}

class MeasuredCompute : public testing::TestWithParam<const char*> {};

TEST_P(MeasuredCompute, EveryLayerTakesTimeAndGivesItsMemoryBack) {
  for (const bool recompute : {true, false}) {
    Options options = small_options();
    options.model = GetParam();
    options.recompute = recompute;
    SmallMachine machine(options);
    const std::int64_t device_held = machine.device().device_budget().held_bytes();
    const std::int64_t host_held = machine.device().host_budget().held_bytes();
    expect_measured(measure_compute(machine.setup(), machine.device()), recompute);
    EXPECT_TRUE(machine.kept_its_budgets(device_held, host_held));
    EXPECT_EQ(machine.device().op_observer(), nullptr);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, MeasuredCompute,
    testing::Values("gpt2:layers=2,hidden=64,heads=2,context=32,vocab=256",
                    "llama:layers=2,hidden=64,heads=4,kv-heads=2,context=32,vocab=256"));

// With little room: everything on NVMe and the smallest budgets that the plan accepts, in f32, with
// one micro-batch, whose gradients are overwritten.
TEST(MeasuredCompute, FitsTheTightestPlan) {
  Options options = small_options();
  options.global_batch = options.micro_batch = 1;
  options.precision = "f32";
  options.place = "all=nvme";
  options.activations = "nvme";
  options.prefetch = 0;
  SmallMachine roomy(options);
  options.device_memory = roomy.setup().plan.total_bytes(offload::Tier::device);
  options.host_memory = roomy.setup().plan.total_bytes(offload::Tier::host);
  SmallMachine machine(options);
  const std::int64_t device_held = machine.device().device_budget().held_bytes();
  const std::int64_t host_held = machine.device().host_budget().held_bytes();
  expect_measured(measure_compute(machine.setup(), machine.device()), true);
  EXPECT_TRUE(machine.kept_its_budgets(device_held, host_held));
}

TEST(WorkSeconds, AddAndScale) {
  WorkSeconds sum{{1, 2, 3}};
  sum += WorkSeconds{{10, 20, 30}} * 2;
  EXPECT_EQ(sum[Work::matmul], 21);
  EXPECT_EQ(sum[Work::attention], 42);
  EXPECT_EQ(sum[Work::elementwise], 63);
  EXPECT_EQ(sum.total(), 126);
}

}  // namespace
}  // namespace strata::engine

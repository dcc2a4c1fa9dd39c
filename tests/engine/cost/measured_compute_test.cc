// What layers cost, measured on small models of both families: every kind of work that a layer has
// takes time, others take none, the memory is given back, and the ops of a step are those that were
// measured.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <string_view>

#include "engine/cost/compute_cost.h"
#include "tests/engine/cost/small_machine.h"
#include "tests/support/engine_run.h"

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

// How often each op runs.
class OpCounts final : public OpObserver {
 public:
  void op_ran(const char* name, double /*seconds*/) override {
    const std::lock_guard lock(mutex_);
    ++of_op_[name];
  }
  const std::map<std::string, double>& of_op() const { return of_op_; }

 private:
  std::mutex mutex_;  // several streams
  std::map<std::string, double> of_op_;
};

// Calls of an op in the step of so many micro-batches whose layers cost one a call.
double calls_in_step(const ComputeCost& cost, double layers, double micro_batches) {
  WorkSeconds calls = cost.block_forward;
  calls += cost.block_recompute;
  calls += cost.block_backward;
  calls = calls * layers;
  for (const WorkSeconds& once :
       {cost.embedding_forward, cost.head_forward, cost.head_backward, cost.embedding_backward}) {
    calls += once;
  }
  return calls.total() * micro_batches;
}

// Two passes of two micro-batches. A call counts as a second, so long that it is measured with 2
// and with 1 of the 3 sequences of a micro-batch, or as nothing.
TEST_P(MeasuredCompute, AStepRunsTheOpsThatWereMeasuredAsOften) {
  const test::TemporaryFolder folder;
  test::write_text(folder.path("text.txt"), 4096);
  for (const bool recompute : {true, false}) {
    Options options = test::small_run(folder, GetParam(), 64 * kMiB);
    options.global_batch = 12;
    options.micro_batch = 3;
    options.pass = 2;
    options.recompute = recompute;
    test::EngineRun run(options);
    run.step();
    OpCounts counts;
    auto& device = static_cast<CpuDevice&>(run.session().device());
    device.observe_ops(&counts);
    run.step();
    run.trainer().drain();
    device.observe_ops(nullptr);
    SmallMachine machine(options);
    double measured_calls = 0;
    double calls = 0;
    for (const auto& [op, of_step] : counts.of_op()) {
      const ComputeCost cost =
          measure_compute(machine.setup(), machine.device(),
                          [&op](std::string_view name) { return name == op ? 1.0 : 0.0; });
      EXPECT_NEAR(calls_in_step(cost, 2, 4), of_step, 1e-9) << op;
      measured_calls += calls_in_step(cost, 2, 4);
      calls += of_step;
    }
    EXPECT_GT(calls, 0);
    const ComputeCost all =
        measure_compute(machine.setup(), machine.device(), [](std::string_view) { return 1.0; });
    EXPECT_NEAR(calls_in_step(all, 2, 4), measured_calls, 1e-9) << "an op that no step has";
    EXPECT_NEAR(all.slowdown, 1, 1e-9) << "of ops that always take as long";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, MeasuredCompute,
    testing::Values("gpt2:layers=2,hidden=64,heads=2,context=32,vocab=256",
                    "llama:layers=2,hidden=64,heads=4,kv-heads=2,context=32,vocab=256"));

// Ops that take 1 s or 2 s, as it comes: the bound's are the fastest, and the mean is 1.5 of those.
TEST(MeasuredCompute, KnowsHowMuchSlowerThanTheFastestOpsAre) {
  SmallMachine machine(small_options());
  std::minstd_rand numbers(1);
  const auto cost = [&](std::string_view) { return numbers() % 2 == 0 ? 1.0 : 2.0; };
  EXPECT_NEAR(measure_compute(machine.setup(), machine.device(), cost).slowdown, 1.5, 0.3);
}

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

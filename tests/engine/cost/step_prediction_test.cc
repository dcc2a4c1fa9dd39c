// The prediction against times that follow by a formula, against the bytes that the plan counts,
// and against the bound, over plans of all kinds.
#include "engine/cost/step_prediction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "engine/cost/step_cost.h"
#include "engine/plan/run_setup.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "offload/plan_traffic.h"

namespace strata::engine {
namespace {

using offload::Link;

// Sums of some thousand terms in double precision.
constexpr double kRounding = 1e-9;
constexpr double kFree = 1e30;  // bytes per second

Options gpt2() {
  Options options;
  options.model = "gpt2-124m";
  options.global_batch = 8;
  options.micro_batch = 2;
  options.seq_len = 128;
  options.threads = 2;
  return options;
}

// With as much memory as it takes, which is not this machine's.
RunSetup setup_of(const Options& options, const comm::Topology& topology = {}) {
  RunSetup setup = resolve_run_setup(options, topology, {}, {64 * kGiB, 64 * kGiB});
  offload::PlanResult result = offload::make_plan(setup.plan_input);
  STRATA_CHECK(result.fits);
  setup.plan = std::move(result.plan);
  return setup;
}

ComputeCost some_compute() {
  ComputeCost cost;
  cost.embedding_forward = {{0, 0, 0.001}};
  cost.block_forward = {{0.02, 0.004, 0.002}};
  cost.block_recompute = {{0.015, 0.004, 0.001}};
  cost.block_backward = {{0.04, 0.009, 0.003}};
  cost.head_forward = {{0.05, 0, 0.002}};
  cost.head_backward = {{0.13, 0, 0.004}};
  cost.embedding_backward = {{0, 0, 0.002}};
  return cost;
}

// Of gpt2-124m, whose blocks are 12.
double seconds_of(const ComputeCost& cost, double micro_batches) {
  return micro_batches * (cost.embedding_forward.total() + cost.head_forward.total() +
                          cost.head_backward.total() + cost.embedding_backward.total() +
                          12 * (cost.block_forward.total() + cost.block_recompute.total() +
                                cost.block_backward.total()));
}

// Nothing but compute takes time, and there is a drive.
MachineRates free_machine() {
  MachineRates rates;
  rates.nvme = {.read_bytes_per_s = kFree, .written_bytes_per_s = kFree};
  return rates;
}

double bytes_of(const RunSetup& setup, Link link) {
  return static_cast<double>(setup.plan.traffic[0].bytes(link) + setup.plan.traffic[1].bytes(link));
}

TEST(StepPrediction, InMemoryItIsTheCompute) {
  const RunSetup setup = setup_of(gpt2());
  const StepPrediction prediction = predict_step(setup, {}, some_compute());
  const double expected = seconds_of(some_compute(), 4);
  EXPECT_NEAR(prediction.step_s, expected, kRounding);
  EXPECT_NEAR(prediction.busy(Resource::cores), expected, kRounding);
  EXPECT_EQ(prediction.limit(), Resource::cores);
  const double forward = 4 * (0.001 + 12 * 0.026 + 0.052);
  EXPECT_NEAR(prediction.phases_s[0], forward, kRounding);
  EXPECT_NEAR(prediction.phases_s[1], expected - forward, kRounding);
  MachineRates half;
  half.workers_share = 0.5;  // the other cores are free
  EXPECT_NEAR(predict_step(setup, half, some_compute()).busy(Resource::cores), expected / 2,
              kRounding);
}

TEST(StepPrediction, PartsOfMicroBatchesCountAsParts) {
  Options options = gpt2();
  options.global_batch = 7;
  options.pass = 3;
  EXPECT_NEAR(predict_step(setup_of(options), {}, some_compute()).step_s,
              seconds_of(some_compute(), 3.5), kRounding);
}

// Without prefetch there is one slot: what is brought waits for what was computed before it. A GPU,
// because its copies are a resource of their own.
TEST(StepPrediction, WithoutPrefetchCopiesAndComputeAddUp) {
  Options options = gpt2();
  options.place = "all=host";
  options.prefetch = 0;
  MachineRates rates = free_machine();
  rates.gpu = GpuRates{.to_device_bytes_per_s = 1e9, .from_device_bytes_per_s = kFree};
  const RunSetup setup = setup_of(options);
  const double copies_s = bytes_of(setup, Link::to_device) / 1e9;
  const double compute_s = seconds_of(some_compute(), 4);
  EXPECT_NEAR(predict_step(setup, rates, some_compute()).step_s, compute_s + copies_s, kRounding);
  options.prefetch = 2;
  const StepPrediction ahead = predict_step(setup_of(options), rates, some_compute());
  // But for the token table, which the embedding hardly computes with: a fifth of all.
  EXPECT_LT(ahead.step_s, compute_s + 0.2 * copies_s);
}

// Half as fast each way as long as both are in use. What is then in use is the link.
TEST(StepPrediction, CopiesEachWaySlowEachOtherDown) {
  Options options = gpt2();
  options.place = "all=host";
  const RunSetup setup = setup_of(options);
  MachineRates rates = free_machine();
  rates.gpu = GpuRates{.to_device_bytes_per_s = 1e9, .from_device_bytes_per_s = 1e9};
  const double apart_s = predict_step(setup, rates, {}).step_s;
  rates.gpu->both_ways_bytes_per_s = 2e9;
  EXPECT_NEAR(predict_step(setup, rates, {}).step_s, apart_s, kRounding);
  rates.gpu->both_ways_bytes_per_s = 1e9;
  const StepPrediction together = predict_step(setup, rates, {});
  EXPECT_GT(together.step_s, 1.05 * apart_s);
  const double both_s =
      (bytes_of(setup, Link::to_device) + bytes_of(setup, Link::from_device)) / 1e9;
  EXPECT_GE(together.step_s, both_s - kRounding);
  EXPECT_NEAR(together.busy(Resource::to_device), both_s, kRounding);
}

TEST(StepPrediction, AGpuUpdatesWhatIsAllOnIt) {
  for (const double clip : {0.0, 1.0}) {
    Options options = gpt2();
    options.place = "all=device";
    options.clip_norm = clip;
    options.on_nonfinite = "stop";
    RunSetup setup = setup_of(options);
    setup.plan_input.device_updates = true;
    setup.plan = offload::make_plan(setup.plan_input).plan;
    MachineRates rates = free_machine();
    rates.memory_bytes_per_s = 1e3;  // the cores would take long
    rates.gpu = GpuRates{.memory_bytes_per_s = 1e9};
    // 28 bytes of state and gradient an element. The tied table's first gradient is copied (8) and
    // the second one added to it (12). All are read for the norm (4); deferred, copied first (8).
    double bytes = 0;
    for (std::size_t u = 0; u < setup.plan.units.size(); ++u) {
      const bool tied = setup.plan_input.units[u].gradient_contributions == 2;
      bytes += static_cast<double>(setup.plan.units[u].shard_elements) *
               (28 + (tied ? 20 : 0) + (clip > 0 ? 12 : 4));
    }
    const double updates_s = bytes / 1e9;
    EXPECT_NEAR(step_cost(setup, rates, {}).bound_s(), updates_s, kRounding);
    EXPECT_NEAR(predict_step(setup, rates, {}).step_s, updates_s, kRounding);
    EXPECT_NEAR(predict_step(setup, rates, some_compute()).step_s,
                updates_s + seconds_of(some_compute(), 4), kRounding);
  }
}

// Of 100 cores, of which one that copies has a tenth of the memory's rate.
TEST(StepPrediction, OneCoreCopiesAtItsOwnRate) {
  Options options = gpt2();
  options.threads = 100;
  options.place = "all=host";
  options.prefetch = 0;
  const RunSetup setup = setup_of(options);
  MachineRates rates = free_machine();
  rates.memory_bytes_per_s = 1e9;
  const double share_s = predict_step(setup, rates, {}).step_s;
  rates.core_memory_bytes_per_s = 1e8;
  const double step_s = predict_step(setup, rates, {}).step_s;
  EXPECT_LT(step_s, 0.2 * share_s);
  EXPECT_GE(step_s, step_cost(setup, rates, {}).bound_s());
  rates.core_memory_bytes_per_s = 1e6;  // less than a share: not of one that copies alone
  EXPECT_NEAR(predict_step(setup, rates, {}).step_s, share_s, kRounding * share_s);
}

// Everything on a drive that is slow: the drive is hardly idle. In backward, its first and last
// chunks have nothing beside them: the first reads, the last writes, each within one of the
// optimizer's chunks of about 10 MiB of 3.9 GB, and the turn between the phases.
TEST(StepPrediction, WithFreeCoresItIsTheDrive) {
  for (const double clip : {0.0, 1.0}) {
    Options options = gpt2();
    options.place = "all=nvme";
    options.clip_norm = clip;
    options.on_nonfinite = "stop";
    const RunSetup setup = setup_of(options);
    MachineRates rates = free_machine();
    rates.nvme = {.read_bytes_per_s = 2e9, .written_bytes_per_s = 1e9, .mixed_bytes_per_s = 1.5e9};
    const StepPrediction prediction = predict_step(setup, rates, {});
    const double bound_s = step_cost(setup, rates, {}).bound_s();
    EXPECT_GE(prediction.step_s, bound_s * (1 - kRounding)) << clip;
    EXPECT_LT(prediction.step_s, bound_s * 1.25) << clip;
    EXPECT_EQ(prediction.limit(), Resource::nvme) << clip;
  }
}

// Compute that takes far longer than all else hides it, but for what is before the first and after
// the last of it: a few units' worth.
TEST(StepPrediction, LongComputeHidesTheRest) {
  Options options = gpt2();
  options.place = "all=nvme";
  const RunSetup setup = setup_of(options);
  MachineRates rates = free_machine();
  rates.gpu = GpuRates{};
  rates.nvme = {.read_bytes_per_s = 2e9, .written_bytes_per_s = 1e9};
  const double transfers_s = predict_step(setup, rates, {}).step_s;
  ComputeCost cost = some_compute();
  cost.slowdown = 100;  // what ops take on average; the bound has the fastest
  const double compute_s = 100 * seconds_of(cost, 4);
  ASSERT_GT(compute_s, 20 * transfers_s);
  const double step_s = predict_step(setup, rates, cost).step_s;
  EXPECT_GT(step_s, compute_s);
  EXPECT_LT(step_s, compute_s + 0.5 * transfers_s);
}

// A plan of any kind.
class RandomPlan {
 public:
  explicit RandomPlan(std::uint32_t seed) : random_(seed) {}

  // Of many small passes, whose sums of gradients are on the drive between them.
  RunSetup setup_of_many_passes() {
    Options options = some_options();
    options.model = "llama:layers=3,hidden=512,heads=4,intermediate=1024,context=256,vocab=8000";
    options.global_batch = 5 + below(28);
    options.micro_batch = 1;
    options.pass = 1;
    options.place =
        "weights=" + tier() + ",remainder=" + tier() + ",moments=" + tier() + ",gradients=nvme";
    return setup_of(options);
  }

  RunSetup setup() {
    Options options = some_options();
    if (coin()) options.model = "smollm2-135m";
    if (coin())
      options.model = "llama:layers=3,hidden=512,heads=4,intermediate=1024,context=256,vocab=20000";
    options.global_batch = 6 + below(12);
    options.micro_batch = 1 + below(2);
    if (coin()) options.pass = 1 + below(4);
    comm::Topology topology;
    topology.world_size = static_cast<int>(1 + below(3));
    topology.rank = static_cast<int>(below(topology.world_size));
    // Several ranks gather also what is on the device, which is copied there; the bound, for which
    // it could be used where it is, does not count that.
    options.place = "weights=" + (topology.world_size > 1 ? one_of({"host", "nvme"}) : tier()) +
                    ",remainder=" + tier() + ",moments=" + tier() + ",gradients=" + tier();
    return setup_of(options, topology);
  }

  // Rates that make each resource the slowest at times.
  MachineRates rates() {
    MachineRates rates;
    rates.memory_bytes_per_s = rate();
    if (coin()) rates.core_memory_bytes_per_s = share() * rates.memory_bytes_per_s;
    rates.optimizer_bytes_per_s = rate();
    rates.checksum_bytes_per_s = rate();
    rates.network.bytes_per_s = rate();
    rates.nvme.read_bytes_per_s = rate();
    rates.nvme.written_bytes_per_s = rate();
    const double slower = std::min(rates.nvme.read_bytes_per_s, rates.nvme.written_bytes_per_s);
    rates.nvme.mixed_bytes_per_s = coin() ? slower * (0.7 + 1.3 * share()) : 0;
    rates.nvme.core_s_per_byte = 1 / (4 * rate());
    rates.nvme.core_s_per_byte_least = rates.nvme.core_s_per_byte;
    if (coin()) rates.workers_share = share();
    if (coin()) rates.gpu = GpuRates{1, 1, rate(), rate()};
    if (rates.gpu && coin()) {
      const auto [slow, fast] =
          std::minmax(rates.gpu->to_device_bytes_per_s, rates.gpu->from_device_bytes_per_s);
      rates.gpu->both_ways_bytes_per_s = fast + share() * slow;
    }
    return rates;
  }

  ComputeCost compute() {
    ComputeCost cost = some_compute();
    const double factor = share();
    for (WorkSeconds* const part : cost.parts()) *part = *part * factor;
    return cost;
  }

 private:
  Options some_options() {
    Options options = gpt2();
    options.prefetch = static_cast<int>(below(4));
    options.recompute = coin();
    options.clip_norm = coin() ? 1.0 : 0.0;
    options.on_nonfinite = "stop";
    options.grad_dtype = coin() ? "bf16" : "f32";
    options.moments = one_of({"f32", "bf16", "int8"});
    options.activations = tier();
    options.chunk_size = (1 + below(8)) * kMiB;
    options.threads = static_cast<int>(1 + below(16));
    return options;
  }
  std::int64_t below(std::int64_t limit) { return static_cast<std::int64_t>(random_() % limit); }
  bool coin() { return below(2) == 0; }
  double share() { return static_cast<double>(1 + below(1000)) / 1000; }
  double rate() { return 1e9 * std::pow(10, 2 * share() - 1); }
  std::string one_of(const std::vector<std::string>& choices) {
    return choices[static_cast<std::size_t>(below(std::ssize(choices)))];
  }
  std::string tier() { return one_of({"device", "host", "nvme"}); }

  std::mt19937 random_;
};

class StepPredictionOfRandomPlans : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, StepPredictionOfRandomPlans, testing::Range(0u, 60u));

// Work may not get lost or be done twice: what each resource is busy with is what the step costs.
TEST_P(StepPredictionOfRandomPlans, DoTheWorkThatTheStepCosts) {
  RandomPlan plan(GetParam());
  const RunSetup setup = plan.setup();
  const MachineRates rates = plan.rates();
  const ComputeCost compute = plan.compute();
  const StepPrediction prediction = predict_step(setup, rates, compute);
  const StepCost cost = step_cost(setup, rates, compute);
  const auto cost_of = [&](Resource resource) {
    return cost.phases[0][resource] + cost.phases[1][resource];
  };
  for (int r = 0; r < kResources; ++r) {
    const auto resource = static_cast<Resource>(r);
    if (resource == Resource::nvme) continue;  // its time depends on what goes on at once
    const double cost_s = cost_of(resource);
    EXPECT_GE(prediction.busy(resource), cost_s * (1 - 1e-6)) << name_of(resource);
    // The cores do a copy more of rounded gradients, on their way to host memory. Directions of one
    // link are in use while either is.
    const bool is_direction = resource == Resource::to_device || resource == Resource::from_device;
    const double most_s = is_direction && rates.gpu && rates.gpu->both_ways_bytes_per_s > 0
                              ? cost_of(Resource::to_device) + cost_of(Resource::from_device)
                              : cost_s;
    EXPECT_LE(prediction.busy(resource), most_s * (resource == Resource::cores ? 1.02 : 1 + 1e-6))
        << name_of(resource);
  }
  // Of one direction at a time it does not.
  MachineRates reads = free_machine();
  reads.nvme.read_bytes_per_s = 1e9;
  EXPECT_NEAR(predict_step(setup, reads, {}).busy(Resource::nvme),
              bytes_of(setup, Link::nvme_read) / 1e9, kRounding);
}

TEST_P(StepPredictionOfRandomPlans, NeverBeatTheBound) {
  for (const bool many_passes : {false, true}) {
    RandomPlan plan(GetParam());
    const RunSetup setup = many_passes ? plan.setup_of_many_passes() : plan.setup();
    const MachineRates rates = plan.rates();
    const ComputeCost compute = plan.compute();
    EXPECT_GE(predict_step(setup, rates, compute).step_s,
              step_cost(setup, rates, compute).bound_s() * (1 - kRounding))
        << setup.plan.passes << " passes";
  }
}

// Twice as fast a machine takes half the time.
TEST_P(StepPredictionOfRandomPlans, ScaleWithTheMachine) {
  RandomPlan plan(GetParam());
  const RunSetup setup = plan.setup();
  MachineRates rates = plan.rates();
  ComputeCost compute = plan.compute();
  const double step_s = predict_step(setup, rates, compute).step_s;
  for (double* rate :
       {&rates.memory_bytes_per_s, &rates.core_memory_bytes_per_s, &rates.optimizer_bytes_per_s,
        &rates.checksum_bytes_per_s, &rates.network.bytes_per_s, &rates.nvme.read_bytes_per_s,
        &rates.nvme.written_bytes_per_s, &rates.nvme.mixed_bytes_per_s}) {
    *rate *= 2;
  }
  rates.nvme.core_s_per_byte /= 2;
  if (rates.gpu) {
    rates.gpu->to_device_bytes_per_s *= 2;
    rates.gpu->from_device_bytes_per_s *= 2;
    rates.gpu->both_ways_bytes_per_s *= 2;
  }
  for (WorkSeconds* const part : compute.parts()) *part = *part * 0.5;
  EXPECT_NEAR(predict_step(setup, rates, compute).step_s, step_s / 2, 1e-6 * step_s);
}

// A faster drive is no slower, but for what a list schedule can lose when its order changes (Graham
// 1969), which is little where there are many small pieces.
TEST_P(StepPredictionOfRandomPlans, GainFromAFasterDrive) {
  RandomPlan plan(GetParam());
  const RunSetup setup = plan.setup();
  MachineRates rates = plan.rates();
  const ComputeCost compute = plan.compute();
  const double step_s = predict_step(setup, rates, compute).step_s;
  rates.nvme.read_bytes_per_s *= 3;
  rates.nvme.written_bytes_per_s *= 3;
  rates.nvme.mixed_bytes_per_s *= 3;
  EXPECT_LE(predict_step(setup, rates, compute).step_s, step_s * 1.02);
}

}  // namespace
}  // namespace strata::engine

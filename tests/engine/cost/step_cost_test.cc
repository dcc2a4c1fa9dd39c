// The bound against hand calculations: invented rates and costs, and every number of the table by a
// formula of its own.
#include "engine/cost/step_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/cost/cost_report.h"
#include "engine/plan/run_setup.h"
#include "tests/engine/cost/small_machine.h"

namespace strata::engine {
namespace {

using offload::Link;
using offload::Phase;

constexpr std::int64_t kLayers = 2;
constexpr std::int64_t kSequences = 6;
constexpr std::int64_t kMicroBatch = 4;  // the second one is half full
constexpr double kMicroBatches = 1.5;
// Sums of tens of terms in double precision.
constexpr double kRounding = 1e-12;

RunSetup setup_of(const std::string& clip_norm, const std::string& grad_dtype = "f32",
                  const comm::Topology& topology = {}) {
  Options options = small_options();
  options.threads = 2;
  options.global_batch = kSequences * topology.world_size;
  options.micro_batch = kMicroBatch;
  options.clip_norm = std::stod(clip_norm);
  options.on_nonfinite = "stop";
  options.grad_dtype = grad_dtype;
  options.place = "all=nvme";
  return make_run_setup(options, topology, {});
}

// Each of another size, so that no two can be confused.
MachineRates some_rates() {
  MachineRates rates;
  rates.memory_bytes_per_s = 3e6;
  rates.optimizer_bytes_per_s = 5e6;
  rates.checksum_bytes_per_s = 7e6;
  rates.nvme = {.read_bytes_per_s = 1.1e6,
                .written_bytes_per_s = 1.3e6,
                .mixed_bytes_per_s = 1.9e6,
                .core_s_per_byte = 1,  // for predictions
                .core_s_per_byte_least = 1.7e-7};
  rates.network.bytes_per_s = 2.3e6;
  return rates;
}

// matmul, attention, elementwise.
ComputeCost some_compute() {
  ComputeCost cost;
  cost.embedding_forward = {{0, 0, 0.001}};
  cost.block_forward = {{0.02, 0.004, 0.002}};
  cost.block_recompute = {{0.015, 0.003, 0.001}};
  cost.block_backward = {{0.04, 0.009, 0.003}};
  cost.head_forward = {{0.05, 0, 0.006}};
  cost.head_backward = {{0.13, 0, 0.007}};
  cost.embedding_backward = {{0, 0, 0.005}};
  return cost;
}

const PhaseCost& phase_of(const StepCost& cost, Phase phase) {
  return cost.phases[static_cast<std::size_t>(phase)];
}

std::int64_t shard_elements(const RunSetup& setup) {
  std::int64_t elements = 0;
  for (const offload::UnitPlan& unit : setup.plan.units) elements += unit.shard_elements;
  return elements;
}

double nvme_bytes(const RunSetup& setup, Phase phase) {
  const offload::PhaseTraffic& traffic = setup.plan.phase(phase);
  return static_cast<double>(traffic.bytes(Link::nvme_read) + traffic.bytes(Link::nvme_written));
}

TEST(StepCost, ComputeIsThatOfAllMicroBatches) {
  const StepCost cost = step_cost(setup_of("1"), some_rates(), some_compute());
  const PhaseCost& forward = phase_of(cost, Phase::forward);
  const PhaseCost& backward = phase_of(cost, Phase::backward);
  EXPECT_NEAR(forward[CoreWork::matmul], kMicroBatches * (kLayers * 0.02 + 0.05), kRounding);
  EXPECT_NEAR(forward[CoreWork::attention], kMicroBatches * kLayers * 0.004, kRounding);
  EXPECT_NEAR(forward[CoreWork::elementwise], kMicroBatches * (0.001 + kLayers * 0.002 + 0.006),
              kRounding);
  EXPECT_EQ(forward[CoreWork::recompute], 0);
  EXPECT_NEAR(backward[CoreWork::matmul], kMicroBatches * (kLayers * 0.04 + 0.13), kRounding);
  EXPECT_NEAR(backward[CoreWork::attention], kMicroBatches * kLayers * 0.009, kRounding);
  EXPECT_NEAR(backward[CoreWork::elementwise], kMicroBatches * (0.005 + kLayers * 0.003 + 0.007),
              kRounding);
  EXPECT_NEAR(backward[CoreWork::recompute], kMicroBatches * kLayers * 0.019, kRounding);
  EXPECT_EQ(forward[Resource::gpu] + backward[Resource::gpu], 0);
}

// 2 + 2 + 4 + 4 bytes of state, read and written, and 4 of the gradient: 28 an element; where the
// update is.
TEST(StepCost, TheOptimizerPassesOverStateAndGradients) {
  for (const char* clip : {"1", "0"}) {
    const RunSetup setup = setup_of(clip);
    const StepCost cost = step_cost(setup, some_rates(), some_compute());
    const double seconds = 28.0 * static_cast<double>(shard_elements(setup)) / 5e6;
    const bool deferred = clip == std::string("1");
    EXPECT_NEAR(phase_of(cost, Phase::forward)[CoreWork::optimizer], deferred ? seconds : 0,
                kRounding);
    EXPECT_NEAR(phase_of(cost, Phase::backward)[CoreWork::optimizer], deferred ? 0 : seconds,
                kRounding);
  }
}

// The tied table's second contribution is added to the first (two reads of 4 bytes, a write); every
// gradient is read for the norm; in bf16 it is rounded first (4 read, 2 written) and then read.
TEST(StepCost, GradientsAreSummedRoundedAndMeasured) {
  for (const char* dtype : {"f32", "bf16"}) {
    const RunSetup setup = setup_of("1", dtype);
    std::int64_t tied = 0;
    for (const int chunk : setup.index.token_chunks) {
      tied += setup.plan.units[static_cast<std::size_t>(chunk)].shard_elements;
    }
    const std::int64_t of_each = dtype == std::string("f32") ? 4 : 4 + 2 + 2;
    const double bytes = static_cast<double>(12 * tied + of_each * shard_elements(setup));
    const StepCost cost = step_cost(setup, some_rates(), some_compute());
    EXPECT_NEAR(phase_of(cost, Phase::backward)[CoreWork::gradients], bytes / 3e6, kRounding);
    EXPECT_EQ(phase_of(cost, Phase::forward)[CoreWork::gradients], 0);
  }
}

TEST(StepCost, BytesOfTheDriveCostItTheChecksumsAndTheKernel) {
  const RunSetup setup = setup_of("1");
  const MachineRates rates = some_rates();
  const StepCost cost = step_cost(setup, rates, some_compute());
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    const double bytes = nvme_bytes(setup, phase);
    ASSERT_GT(bytes, 0);
    const auto read = static_cast<double>(setup.plan.phase(phase).bytes(Link::nvme_read));
    EXPECT_NEAR(phase_of(cost, phase)[Resource::nvme], rates.nvme.seconds(read, bytes - read),
                kRounding);
    EXPECT_NEAR(phase_of(cost, phase)[CoreWork::checksums], bytes / 7e6, kRounding);
    EXPECT_NEAR(phase_of(cost, phase)[CoreWork::io], bytes * 1.7e-7 / 2, kRounding);  // 2 threads
  }
}

// Each copy reads and writes.
TEST(StepCost, CopiesAreTheCoresAndWhatOthersSendTheNetworks) {
  const RunSetup setup = setup_of("1", "f32", {.rank = 1, .world_size = 3});
  const StepCost cost = step_cost(setup, some_rates(), some_compute());
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    const offload::PhaseTraffic& traffic = setup.plan.phase(phase);
    const auto received =
        static_cast<double>(traffic.bytes(Link::gathered) + traffic.bytes(Link::reduced));
    const auto copied =
        static_cast<double>(traffic.bytes(Link::to_device) + traffic.bytes(Link::from_device));
    ASSERT_GT(received, 0);
    EXPECT_NEAR(phase_of(cost, phase)[Resource::network], received / 2.3e6, kRounding);
    EXPECT_NEAR(phase_of(cost, phase)[CoreWork::copies], 2 * (copied + received) / 3e6, kRounding);
    EXPECT_EQ(phase_of(cost, phase)[Resource::to_device], 0);
  }
}

// Half of the rows: half of the products, at least a quarter of the attention, and all the bytes.
TEST(StepCost, PaddingLeavesWorkOut) {
  RunSetup setup = setup_of("1");
  const StepCost full = step_cost(setup, some_rates(), some_compute());
  const StepCost half = step_cost(setup, some_rates(), some_compute(), 0.5);
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    const PhaseCost& whole = phase_of(full, phase);
    const PhaseCost& part = phase_of(half, phase);
    EXPECT_NEAR(part[CoreWork::matmul], whole[CoreWork::matmul] / 2, kRounding);
    EXPECT_NEAR(part[CoreWork::elementwise], whole[CoreWork::elementwise] / 2, kRounding);
    EXPECT_NEAR(part[CoreWork::attention], whole[CoreWork::attention] / 4, kRounding);
    for (const CoreWork work : {CoreWork::optimizer, CoreWork::gradients, CoreWork::checksums,
                                CoreWork::copies, CoreWork::io}) {
      EXPECT_EQ(part[work], whole[work]) << name_of(work);
    }
    EXPECT_EQ(part[Resource::nvme], whole[Resource::nvme]);
  }
  // Of the recompute's 0.019 s a layer 0.003 s are attention.
  EXPECT_NEAR(phase_of(half, Phase::backward)[CoreWork::recompute],
              kMicroBatches * kLayers * (0.016 / 2 + 0.003 / 4), kRounding);
  setup.options.pack = true;
  EXPECT_EQ(
      phase_of(step_cost(setup, some_rates(), some_compute()), Phase::forward)[CoreWork::attention],
      0);
}

TEST(StepCost, OnAGpuComputeAndCopiesLeaveTheCores) {
  const RunSetup setup = setup_of("1");
  MachineRates rates = some_rates();
  rates.gpu = GpuRates{.to_device_bytes_per_s = 2.9e6, .from_device_bytes_per_s = 3.1e6};
  const StepCost cost = step_cost(setup, rates, some_compute());
  const PhaseCost& backward = phase_of(cost, Phase::backward);
  EXPECT_NEAR(backward[Resource::gpu], kMicroBatches * (kLayers * (0.052 + 0.019) + 0.137 + 0.005),
              kRounding);
  EXPECT_EQ(backward[CoreWork::matmul] + backward[CoreWork::recompute], 0);
  EXPECT_EQ(backward[CoreWork::copies], 0);
  const offload::PhaseTraffic& traffic = setup.plan.phase(Phase::backward);
  EXPECT_NEAR(backward[Resource::to_device],
              static_cast<double>(traffic.bytes(Link::to_device)) / 2.9e6, kRounding);
  EXPECT_NEAR(backward[Resource::from_device],
              static_cast<double>(traffic.bytes(Link::from_device)) / 3.1e6, kRounding);
}

// Its own shard, read and written; of what two others send it is half.
TEST(StepCost, AGpuCopiesWeightsToWhereTheyAreGathered) {
  RunSetup setup = setup_of("1", "f32", {.rank = 1, .world_size = 3});
  setup.plan_input.placement.states.fill(offload::Tier::device);
  setup.plan = offload::make_plan(setup.plan_input).plan;
  MachineRates rates;
  rates.gpu = GpuRates{.memory_bytes_per_s = 1e6};
  const StepCost cost = step_cost(setup, rates, {});
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    const auto gathered = static_cast<double>(setup.plan.phase(phase).bytes(Link::gathered));
    ASSERT_GT(gathered, 0);
    EXPECT_NEAR(phase_of(cost, phase)[Resource::gpu], 2 * gathered / 2 / 1e6, kRounding);
  }
}

TEST(StepCost, ARateThatIsNotKnownCostsNothing) {
  const StepCost cost = step_cost(setup_of("1"), MachineRates{}, ComputeCost{});
  EXPECT_EQ(cost.bound_s(), 0);
}

TEST(StepCost, TheCoresAreOneResourceAndTheLongestCounts) {
  const StepCost cost = step_cost(setup_of("1"), some_rates(), some_compute());
  double bound_s = -cost.moved_s;
  for (const PhaseCost& phase : cost.phases) {
    double cores_s = 0;
    for (const double work_s : phase.cores) cores_s += work_s;
    EXPECT_NEAR(phase[Resource::cores], cores_s, kRounding);
    bound_s += std::max({cores_s, phase[Resource::nvme], phase[Resource::network]});
  }
  EXPECT_NEAR(cost.bound_s(), bound_s, kRounding);
}

StepCost cost_of(double forward_cores, double forward_nvme, double backward_cores,
                 double backward_nvme) {
  StepCost cost;
  cost.phases[0].add(CoreWork::matmul, forward_cores);
  cost.phases[0][Resource::nvme] = forward_nvme;
  cost.phases[1].add(CoreWork::matmul, backward_cores);
  cost.phases[1][Resource::nvme] = backward_nvme;
  return cost;
}

TEST(StepCost, TheLimitIsWhatMostOfTheBoundIsSpentOn) {
  EXPECT_EQ(cost_of(1, 2, 4, 3).limit(), Resource::cores);
  EXPECT_EQ(cost_of(1, 5, 4, 3).limit(), Resource::nvme);
  EXPECT_DOUBLE_EQ(cost_of(1, 5, 4, 3).bound_s(), 9);
  EXPECT_EQ(phase_of(cost_of(1, 5, 4, 3), Phase::backward).longest(), Resource::cores);
}

// What the plan holds of transfers on their way.
std::int64_t held_bytes(const offload::Plan& plan) {
  std::int64_t bytes = plan.record_slots.bytes();
  for (const char* tag : {"weight staging", "optimizer staging", "gradient staging",
                          "activation staging", "gathered units", "gradient slots"}) {
    for (const offload::PlannedBuffer& buffer : plan.buffers) {
      if (buffer.tag == tag) bytes += buffer.bytes;
    }
  }
  return bytes;
}

// A slow drive in the forward and slow cores in the backward: what staging and slots hold may move,
// once at each of two turns of a pass, at the drive's slower rate; never more than the excess or
// the other's leisure.
TEST(StepCost, WhatIsHeldMovesToTheOtherPhase) {
  const RunSetup setup = setup_of("1");
  const std::int64_t held = held_bytes(setup.plan);
  ASSERT_GT(held, 0);
  MachineRates rates;
  rates.nvme = {.read_bytes_per_s = 2e6, .written_bytes_per_s = 1e6};
  ComputeCost compute;
  compute.block_backward[Work::matmul] = 100;
  StepCost cost = step_cost(setup, rates, compute);
  const double excess_s = phase_of(cost, Phase::forward)[Resource::nvme];
  ASSERT_GT(excess_s, 0);
  EXPECT_NEAR(cost.moved_s, std::min(excess_s, 2 * static_cast<double>(held) / 1e6), kRounding);
  // The backward has but a moment to spare.
  const double backward_nvme_s = phase_of(cost, Phase::backward)[Resource::nvme];
  compute.block_backward[Work::matmul] = (backward_nvme_s + 1e-3) / (kMicroBatches * kLayers);
  cost = step_cost(setup, rates, compute);
  EXPECT_NEAR(cost.moved_s, 1e-3, kRounding);
  // The drive bounds both.
  EXPECT_EQ(step_cost(setup, rates, ComputeCost{}).moved_s, 0);
  // Cores that are slow in backward with checksums alone do them in a long forward.
  rates = {};
  rates.checksum_bytes_per_s = 1e9;
  rates.gpu = GpuRates{.to_device_bytes_per_s = 1e12, .from_device_bytes_per_s = 1e12};
  compute = {};
  compute.block_forward[Work::matmul] = 100;
  cost = step_cost(setup, rates, compute);
  const double checksums_s = phase_of(cost, Phase::backward)[Resource::cores];
  EXPECT_NEAR(cost.moved_s, std::min(checksums_s, 2 * static_cast<double>(held) / 1e9), 1e-9);
}

// Compute has half of the processors, and all of the work half of its seconds on all of them.
TEST(StepCost, ProcessorsBesideTheWorkersTakeWork) {
  const RunSetup setup = setup_of("1");
  MachineRates rates = some_rates();
  const StepCost whole = step_cost(setup, rates, some_compute());
  rates.workers_share = 0.5;
  const StepCost half = step_cost(setup, rates, some_compute());
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    const PhaseCost& of_whole = phase_of(whole, phase);
    const double compute_s = of_whole[CoreWork::matmul] + of_whole[CoreWork::attention] +
                             of_whole[CoreWork::elementwise] + of_whole[CoreWork::recompute];
    EXPECT_NEAR(phase_of(half, phase)[Resource::cores], of_whole[Resource::cores] / 2, kRounding);
    EXPECT_NEAR(phase_of(half, phase)[Resource::workers], compute_s, kRounding);
    EXPECT_EQ(of_whole[Resource::workers], 0);
  }
}

// Three times the forward's: C² weights of 12 a block and the vocabulary, for each row twice; and
// two products over the (T + 1) / 2 keys that a row sees.
TEST(StepCost, UsefulFlopsAreThreeForwards) {
  constexpr double kHidden = 64;
  constexpr double kTokens = 32;
  const double rows = kSequences * kTokens;
  const double linear = 2 * rows * (kLayers * 12 * kHidden * kHidden + 256 * kHidden);
  const double attention = kLayers * 4 * rows * kHidden * (kTokens + 1) / 2;
  EXPECT_DOUBLE_EQ(useful_flops(setup_of("1")), 3 * (linear + attention));
}

TEST(CostReport, TableAndJsonSayTheSame) {
  StepCost cost = cost_of(0.25, 0.5, 2, 1);
  cost.phases[1].add(CoreWork::io, 0.125);
  cost.moved_s = 0.0625;
  EXPECT_EQ(bound_table(cost),
            "time of a step, at least     forward    backward\n"
            "  cores                       250 ms      2.12 s\n"
            "    matmul                    250 ms      2.00 s\n"
            "    I/O                            -      125 ms\n"
            "  NVMe                        500 ms      1.00 s\n"
            "longest                       500 ms      2.12 s\n"
            "bound 2.56 s a step, limited by cores; 62.5 ms less, for what can move to the "
            "other phase\n");
  const nlohmann::json json = bound_json(cost);
  EXPECT_EQ(json["seconds"], 2.5625);
  EXPECT_EQ(json["limit"], "cores");
  EXPECT_EQ(json["moved_s"], 0.0625);
  EXPECT_EQ(json["backward"]["cores_s"], 2.125);
  EXPECT_EQ(json["backward"]["cores"]["io_s"], 0.125);
  EXPECT_EQ(json["backward"]["bound_s"], 2.125);
  EXPECT_EQ(json["forward"]["nvme_s"], 0.5);
  EXPECT_EQ(json["forward"]["to_device_s"], 0);
}

}  // namespace
}  // namespace strata::engine

// The streaming optimizer against the same reads and writes without arithmetic, which is what it
// does when every element is frozen. The measurement is not part of the suite: see
// scripts/bench_streaming.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "engine/step/streaming_optimizer.h"
#include "io/volume.h"
#include "kernels/base/machine.h"
#include "kernels/device/cpu_device.h"
#include "tests/offload/small_plan.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using offload::StateKind;
using offload::Tier;

// All state of a few equal units on NVMe, updated in backward: the optimizer moves all of it.
offload::PlanInput input(std::int64_t unit_elements, std::int64_t block_elements,
                         MomentFormat moments) {
  offload::PlanInput input = offload::testing::placed(Tier::nvme, Tier::device);
  for (offload::UnitSize& unit : input.units) unit = {unit.name, unit_elements};
  input.update = offload::UpdateTime::in_backward;
  input.dtypes.moments = moments;
  input.block_elements = block_elements;
  input.chunk_elements = 4 * block_elements;
  input.device_memory_bytes = 2 * kGiB;
  input.host_memory_bytes = 2 * kGiB;
  return input;
}

class Machine {
 public:
  Machine(const offload::PlanInput& input, const std::string& directory, int threads)
      : plan_(offload::testing::plan_of(input)),
        workers_(threads),
        storage_(io::create_volume(options(directory, plan_.total_bytes(Tier::nvme)), nullptr)),
        store_(plan_, device_, storage_.get(), workers_),
        gradient_(static_cast<std::size_t>(plan_.units[0].shard_elements), 1e-3f),
        updates_(parts(), order(), groups(1), 0.1, resolved_isa()),
        moves_(parts(), order(), groups(0), 0.1, resolved_isa()) {
    write_zeros();
  }

  // One step's update of everything, until it is on the drive. Seconds.
  double update() { return run(updates_); }
  // The same reads and writes.
  double move() { return run(moves_); }

  io::StorageTraffic updated() const { return updates_.update_traffic(); }
  io::StorageTraffic moved() const { return moves_.update_traffic(); }
  const offload::Plan& plan() const { return plan_; }

  // The stored weights of a unit.
  std::vector<std::byte> weights(int unit) {
    const std::int64_t bytes = plan_.shard_bytes(plan_.units[0], StateKind::weights);
    PinnedBuffer memory = device_.allocate_pinned("weights", bytes);
    offload::VerifiedReads reads;
    store_.read(unit, StateKind::weights, 0, memory.span(), reads);
    reads.wait();
    return {memory.span().data(), memory.span().data() + bytes};
  }

 private:
  static io::VolumeOptions options(const std::string& directory, std::int64_t bytes) {
    io::VolumeOptions options;
    options.directories = {{directory}};
    options.capacity_bytes = bytes;
    options.engine.kind = io::choose_engine(io::parse_engine("auto")).kind;
    return options;
  }
  static Isa resolved_isa() { return parse_isa("auto"); }
  OptimizerParts parts() { return {store_, device_, workers_, nullptr, 0}; }
  std::vector<int> order() const {
    std::vector<int> order;
    for (int unit = 0; unit < std::ssize(plan_.units); ++unit) order.push_back(unit);
    return order;
  }
  std::vector<std::vector<ParameterSegment>> groups(double lr_scale) const {
    const ParameterSegment all{std::numeric_limits<std::int64_t>::max(), lr_scale, true};
    return {plan_.units.size(), {all}};
  }
  void write_zeros() {
    PinnedBuffer zeros =
        device_.allocate_pinned("zeros", plan_.units[0].shard_elements * bytes_of(Dtype::f32));
    std::memset(zeros.data(), 0, static_cast<std::size_t>(zeros.span().bytes()));
    io::IoGroup writes;
    for (const int unit : order()) {
      for (const StateKind kind :
           {StateKind::weights, StateKind::remainder, StateKind::moment1, StateKind::moment2}) {
        const std::int64_t bytes = plan_.shard_bytes(plan_.units[0], kind);
        store_.write(unit, kind, 0, zeros.span(0, bytes), writes);
        writes.wait();
      }
    }
  }
  double run(StreamingOptimizer& optimizer) {
    const auto begin = std::chrono::steady_clock::now();
    optim::StepSettings settings;
    settings.step = ++step_;
    optimizer.begin_step(settings, 1e-3);
    for (const int unit : order()) optimizer.apply_final(unit, gradient_.data());
    optimizer.finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  offload::Plan plan_;
  FailureLatch failure_;
  WorkerSet workers_;
  Budget host_{"host memory", 3 * kGiB};
  CpuDevice device_{{2 * kGiB, -1}, host_, workers_, failure_, nullptr};
  std::unique_ptr<io::Volume> storage_;
  offload::StateStore store_;
  std::vector<float> gradient_;
  StreamingOptimizer updates_;
  StreamingOptimizer moves_;
  std::int64_t step_ = 0;
};

TEST(Streaming, FrozenElementsMoveTheSameBytesAndStay) {
  const test::TemporaryFolder folder;
  Machine machine(input(50000, 4096, MomentFormat::int8), folder.path(), 2);
  const auto before = machine.weights(0);
  machine.move();
  EXPECT_EQ(machine.weights(0), before);
  machine.update();
  EXPECT_NE(machine.weights(0), before);
  EXPECT_GT(machine.moved().read_bytes, 0);
  EXPECT_EQ(machine.moved().read_bytes, machine.updated().read_bytes);
  EXPECT_EQ(machine.moved().written_bytes, machine.updated().written_bytes);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

const char* setting(const char* name, const char* otherwise) {
  const char* const value = ::getenv(name);
  return value != nullptr ? value : otherwise;
}

TEST(Streaming, DISABLED_Speed) {
  const std::string directory = setting("STRATA_BENCH_DIR", "/tmp");
  const int pairs = std::atoi(setting("STRATA_BENCH_PAIRS", "7"));
  const std::int64_t unit = std::atoll(setting("STRATA_BENCH_UNIT_ELEMENTS", "4194304"));
  const int threads = cpu_share(0, 1).threads;
  for (const MomentFormat moments : {MomentFormat::f32, MomentFormat::bf16, MomentFormat::int8}) {
    Machine machine(input(unit, offload::kBlockElements, moments), directory, threads);
    machine.update();
    machine.move();
    std::vector<double> updates;
    std::vector<double> moves;
    std::vector<double> ratios;
    for (int i = 0; i < pairs; ++i) {
      updates.push_back(machine.update());
      moves.push_back(machine.move());
      ratios.push_back(updates.back() / moves.back());
    }
    const auto moved = machine.moved();
    const double bytes = static_cast<double>(moved.read_bytes + moved.written_bytes);
    std::printf(
        "%s moments: %.3f s with the update, %.3f s without (%.2f GB/s): ratio of medians "
        "%.3f, median of ratios %.3f\n",
        name_of(moments), median(updates), median(moves), bytes / median(moves) / 1e9,
        median(updates) / median(moves), median(ratios));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace strata::engine

// StreamingMachine: the streaming optimizer on state that all lies in a volume, and a second one
// that does the same reads and writes without arithmetic: every element is frozen there.
#pragma once

#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "engine/step/streaming_optimizer.h"
#include "io/volume.h"
#include "kernels/device/cpu_device.h"
#include "tests/offload/small_plan.h"

namespace strata::engine {

// All state of a few equal units on NVMe, updated in backward: the optimizer moves all of it.
inline offload::PlanInput streaming_input(std::int64_t unit_elements, std::int64_t block_elements,
                                          MomentFormat moments) {
  offload::PlanInput input = offload::testing::placed(offload::Tier::nvme, offload::Tier::device);
  for (offload::UnitSize& unit : input.units) unit = {unit.name, unit_elements};
  input.update = offload::UpdateTime::in_backward;
  input.dtypes.moments = moments;
  input.block_elements = block_elements;
  input.chunk_elements = 4 * block_elements;
  input.device_memory_bytes = 2 * kGiB;
  input.host_memory_bytes = 2 * kGiB;
  return input;
}

class StreamingMachine {
 public:
  StreamingMachine(const offload::PlanInput& input, const std::string& directory, int threads)
      : plan_(offload::testing::plan_of(input)),
        workers_(threads),
        storage_(
            io::create_volume(options(directory, plan_.total_bytes(offload::Tier::nvme)), nullptr)),
        store_(plan_, device_, storage_.get(), workers_),
        gradient_(static_cast<std::size_t>(plan_.units[0].shard_elements), 1e-3f),
        updates_(parts(), order(), groups(1), 0.1, resolved_isa()),
        moves_(parts(), order(), groups(0), 0.1, resolved_isa()) {
    write_zeros();
  }

  // One step's update of everything, until it is on the drive. Seconds.
  double update() { return run(updates_, updated_); }
  // The same reads and writes.
  double move() { return run(moves_, moved_); }

  // By the last of each.
  const offload::Traffic& updated() const { return updated_; }
  const offload::Traffic& moved() const { return moved_; }
  const offload::Plan& plan() const { return plan_; }

  // The stored weights of a unit.
  std::vector<std::byte> weights(int unit) {
    const std::int64_t bytes = plan_.shard_bytes(plan_.units[0], offload::StateKind::weights);
    PinnedBuffer memory = device_.allocate_pinned("weights", bytes);
    offload::VerifiedReads reads;
    store_.read(unit, offload::StateKind::weights, 0, memory.span(), reads);
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
      for (const offload::StateKind kind :
           {offload::StateKind::weights, offload::StateKind::remainder, offload::StateKind::moment1,
            offload::StateKind::moment2}) {
        const std::int64_t bytes = plan_.shard_bytes(plan_.units[0], kind);
        store_.write(unit, kind, 0, zeros.span(0, bytes), writes);
        writes.wait();
      }
    }
  }
  double run(StreamingOptimizer& optimizer, offload::Traffic& traffic) {
    const auto begin = std::chrono::steady_clock::now();
    optim::StepSettings settings;
    settings.step = ++step_;
    optimizer.begin_step(settings, 1e-3);
    for (const int unit : order()) optimizer.apply_final(unit, gradient_.data());
    optimizer.finish();
    traffic = optimizer.update_traffic();
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
  offload::Traffic updated_;
  offload::Traffic moved_;
  std::int64_t step_ = 0;
};

}  // namespace strata::engine

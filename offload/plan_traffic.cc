#include "offload/plan_traffic.h"

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"

namespace strata::offload {

namespace {

class TrafficCounter {
 public:
  TrafficCounter(const PlanInput& input, const Plan& plan) : input_(input), plan_(plan) {}

  std::array<PhaseTraffic, kPhases> run() {
    count_weights();
    count_updates();
    count_gradients();
    count_activations();
    return traffic_;
  }

 private:
  PhaseTraffic& traffic(Phase phase) { return traffic_[static_cast<std::size_t>(phase)]; }

  void read_nvme(Phase phase, const UnitPlan& unit, StateKind kind) {
    if (unit.tier(kind) == Tier::nvme)
      traffic(phase).nvme_read_bytes += plan_.shard_bytes(unit, kind);
  }
  void write_nvme(Phase phase, const UnitPlan& unit, StateKind kind) {
    if (unit.tier(kind) == Tier::nvme)
      traffic(phase).nvme_written_bytes += plan_.shard_bytes(unit, kind);
  }

  void count_weights() {
    const std::vector<std::uint8_t> gathered = plan_.gathered_units();
    for (std::size_t i = 0; i < plan_.uses.size(); ++i) {
      const ScheduledUse& use = plan_.uses[i];
      if (use.hit) continue;
      const Phase phase =
          static_cast<std::int64_t>(i) < input_.forward_uses ? Phase::forward : Phase::backward;
      const UnitPlan& unit = plan_.units[static_cast<std::size_t>(use.unit)];
      const std::int64_t bytes = plan_.shard_bytes(unit, StateKind::weights);
      for (int pass = 0; pass < input_.passes; ++pass) {
        read_nvme(phase, unit, StateKind::weights);
        if (gathered[static_cast<std::size_t>(use.unit)] != 0) {
          traffic(phase).to_device_bytes += bytes;
        }
        traffic(phase).gathered_bytes += bytes * (input_.world_size - 1);
      }
    }
  }

  void count_updates() {
    const bool deferred = input_.update == UpdateTime::deferred;
    const Phase phase = deferred ? Phase::forward : Phase::backward;
    for (const UnitPlan& unit : plan_.units) {
      if (unit.frozen) continue;
      for (const StateKind kind : kLastingKinds) {
        const std::int64_t bytes = plan_.shard_bytes(unit, kind);
        traffic(phase).optimizer_bytes += 2 * bytes;
        // Deferred, the gather that applies the update has read the weights already.
        if (!(deferred && kind == StateKind::weights)) read_nvme(phase, unit, kind);
        write_nvme(phase, unit, kind);
        if (unit.tier(kind) == Tier::device) {
          traffic(phase).from_device_bytes += bytes;
          traffic(phase).to_device_bytes += bytes;
        }
      }
      traffic(phase).optimizer_bytes += unit.shard_elements * bytes_of(input_.dtypes.gradients);
    }
  }

  void count_gradients() {
    PhaseTraffic& backward = traffic(Phase::backward);
    for (std::size_t i = 0; i < plan_.units.size(); ++i) {
      const UnitPlan& unit = plan_.units[i];
      if (unit.frozen) continue;
      const int contributions = input_.units[i].gradient_contributions * input_.passes;
      const std::int64_t shard_bytes = unit.shard_elements * 4;
      backward.from_device_bytes += contributions * shard_bytes;
      backward.reduced_bytes += contributions * shard_bytes * (input_.world_size - 1);
      if (unit.tier(StateKind::gradients) != Tier::nvme) continue;
      backward.nvme_written_bytes += (contributions - 1) * shard_bytes;  // partial sums, f32
      backward.nvme_read_bytes += (contributions - 1) * shard_bytes;
      if (input_.update == UpdateTime::deferred) {
        const std::int64_t final_bytes = unit.shard_elements * bytes_of(input_.dtypes.gradients);
        backward.nvme_written_bytes += final_bytes;
        traffic(Phase::forward).nvme_read_bytes += final_bytes;
      }
    }
  }

  void count_activations() {
    for (const ScheduledAccess& access : plan_.accesses) {
      PhaseTraffic& phase =
          traffic(access.access.turn < input_.backward_turn ? Phase::forward : Phase::backward);
      const auto record = static_cast<std::size_t>(access.access.record);
      const std::int64_t bytes = round_up(input_.record_bytes[record], kPageBytes) * input_.passes;
      if (access.load) phase.to_device_bytes += bytes;
      if (access.store) phase.from_device_bytes += bytes;
      if (plan_.activations != Tier::nvme) continue;
      if (access.load) phase.nvme_read_bytes += bytes;
      if (access.store) phase.nvme_written_bytes += bytes;
    }
  }

  const PlanInput& input_;
  const Plan& plan_;
  std::array<PhaseTraffic, kPhases> traffic_{};
};

}  // namespace

std::array<PhaseTraffic, kPhases> count_traffic(const PlanInput& input, const Plan& plan) {
  return TrafficCounter(input, plan).run();
}

}  // namespace strata::offload

#include "offload/plan_traffic.h"

#include <algorithm>

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
    move(Phase::forward, Link::to_device, MovedKind::batch, input_.batch_bytes);
    move(Phase::backward, Link::from_device, MovedKind::batch, input_.result_bytes);
    return traffic_;
  }

 private:
  int peers() const { return input_.world_size - 1; }
  PhaseTraffic& traffic(Phase phase) { return traffic_[static_cast<std::size_t>(phase)]; }
  void move(Phase phase, Link link, MovedKind kind, std::int64_t bytes) {
    traffic(phase).moved.add(link, kind, bytes);
  }

  void read_nvme(Phase phase, const UnitPlan& unit, StateKind kind) {
    if (unit.tier(kind) == Tier::nvme)
      move(phase, Link::nvme_read, moved(kind), plan_.shard_bytes(unit, kind));
  }
  void write_nvme(Phase phase, const UnitPlan& unit, StateKind kind) {
    if (unit.tier(kind) == Tier::nvme)
      move(phase, Link::nvme_written, moved(kind), plan_.shard_bytes(unit, kind));
  }

  void count_weights() {
    for (std::size_t i = 0; i < plan_.uses.size(); ++i) {
      const ScheduledUse& use = plan_.uses[i];
      if (use.hit) continue;
      const Phase phase =
          static_cast<std::int64_t>(i) < input_.forward_uses ? Phase::forward : Phase::backward;
      const UnitPlan& unit = plan_.units[static_cast<std::size_t>(use.unit)];
      const std::int64_t bytes = plan_.shard_bytes(unit, StateKind::weights);
      for (int pass = 0; pass < input_.passes; ++pass) {
        read_nvme(phase, unit, StateKind::weights);
        if (unit.tier(StateKind::weights) != Tier::device) {
          move(phase, Link::to_device, MovedKind::weights, bytes);
        }
        move(phase, Link::gathered, MovedKind::weights, bytes * peers());
      }
    }
  }

  void count_updates() {
    const bool deferred = input_.update == UpdateTime::deferred;
    const Phase phase = deferred ? Phase::forward : Phase::backward;
    if (std::ranges::any_of(plan_.units, &UnitPlan::updated_on_device)) {
      move(phase, Link::from_device, MovedKind::batch, kDomainBytes);
    }
    for (const UnitPlan& unit : plan_.units) {
      if (unit.frozen || unit.updated_on_device) continue;
      for (const StateKind kind : kLastingKinds) {
        const std::int64_t bytes = plan_.shard_bytes(unit, kind);
        // Deferred, the gather that applies the update has read the weights already.
        if (!(deferred && kind == StateKind::weights)) read_nvme(phase, unit, kind);
        write_nvme(phase, unit, kind);
        if (unit.tier(kind) == Tier::device) {
          move(phase, Link::from_device, moved(kind), bytes);
          move(phase, Link::to_device, moved(kind), bytes);
        }
      }
      traffic(phase).optimizer_bytes += update_bytes(plan_, unit.shard_elements);
    }
  }

  void count_gradients() {
    for (std::size_t i = 0; i < plan_.units.size(); ++i) {
      const UnitPlan& unit = plan_.units[i];
      if (unit.frozen) continue;
      const int contributions = input_.units[i].gradient_contributions * input_.passes;
      const std::int64_t shard_bytes = unit.shard_elements * 4;
      const auto gradients = [&](Phase phase, Link link, std::int64_t bytes) {
        move(phase, link, MovedKind::gradients, bytes);
      };
      gradients(Phase::backward, Link::reduced, contributions * shard_bytes * peers());
      if (unit.updated_on_device) {
        gradients(Phase::backward, Link::from_device, norm_bytes(unit.shard_elements));
        continue;
      }
      gradients(Phase::backward, Link::from_device, contributions * shard_bytes);
      const Tier tier = unit.tier(StateKind::gradients);
      if (tier == Tier::host) continue;
      const Link there = tier == Tier::nvme ? Link::nvme_written : Link::to_device;
      const Link back = tier == Tier::nvme ? Link::nvme_read : Link::from_device;
      gradients(Phase::backward, there, (contributions - 1) * shard_bytes);  // partial sums, f32
      gradients(Phase::backward, back, (contributions - 1) * shard_bytes);
      if (input_.update == UpdateTime::deferred) {
        const std::int64_t final_bytes = unit.shard_elements * bytes_of(input_.dtypes.gradients);
        gradients(Phase::backward, there, final_bytes);
        gradients(Phase::forward, back, final_bytes);
      }
    }
  }

  void count_activations() {
    if (plan_.activations == Tier::device) return;
    const int smaller = input_.last_pass ? 1 : 0;
    count_activations(plan_.accesses, input_.backward_turn, input_.passes - smaller);
    if (!input_.last_pass) return;
    count_activations(schedule_records(input_.last_pass->record_walk, plan_.record_slots,
                                       plan_.record_lookahead()),
                      input_.last_pass->backward_turn, 1);
  }

  void count_activations(const std::vector<ScheduledAccess>& accesses, int backward_turn,
                         int passes) {
    for (const ScheduledAccess& access : accesses) {
      const Phase phase = access.access.turn < backward_turn ? Phase::forward : Phase::backward;
      const auto record = static_cast<std::size_t>(access.access.record);
      const std::int64_t bytes = round_up(input_.record_bytes[record], kPageBytes) * passes;
      const auto records = [&](Link link) { move(phase, link, MovedKind::activations, bytes); };
      if (access.load) records(Link::to_device);
      if (access.store) records(Link::from_device);
      if (plan_.activations != Tier::nvme) continue;
      if (access.load) records(Link::nvme_read);
      if (access.store) records(Link::nvme_written);
    }
  }

  const PlanInput& input_;
  const Plan& plan_;
  std::array<PhaseTraffic, kPhases> traffic_{};
};

}  // namespace

std::int64_t update_bytes(const Plan& plan, std::int64_t elements) {
  std::int64_t bytes = plan.bytes_of_elements(StateKind::gradients, elements);
  for (const StateKind kind : kLastingKinds) bytes += 2 * plan.bytes_of_elements(kind, elements);
  return bytes;
}

std::int64_t device_update_bytes(const Plan& plan) {
  std::int64_t elements = 0;
  for (const UnitPlan& unit : plan.units) {
    if (unit.updated_on_device) elements += unit.shard_elements;
  }
  return update_bytes(plan, elements);
}

std::int64_t device_gradient_bytes(const PlanInput& input, const Plan& plan, std::size_t unit) {
  const std::int64_t contributions = input.units[unit].gradient_contributions * input.passes;
  const std::int64_t stored = bytes_of(plan.dtypes.gradients);
  // The first one is kept for others, which are added to it.
  std::int64_t bytes = contributions > 1 ? 8 + 12 * (contributions - 1) : 0;
  if (plan.update == UpdateTime::deferred) {
    bytes += (4 + stored) + stored;
  } else {
    bytes += (stored < 4 ? 8 : 0) + 4;  // rounded where it is
  }
  return bytes * plan.units[unit].shard_elements;
}

std::array<PhaseTraffic, kPhases> count_traffic(const PlanInput& input, const Plan& plan) {
  return TrafficCounter(input, plan).run();
}

}  // namespace strata::offload

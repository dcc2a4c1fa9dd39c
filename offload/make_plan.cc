#include <algorithm>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"
#include "kernels/device/device.h"
#include "offload/plan.h"
#include "offload/plan_traffic.h"

namespace strata::offload {

namespace {

constexpr std::array<StateKind, kStateKinds> kPlacementOrder = {
    StateKind::weights, StateKind::gradients, StateKind::remainder, StateKind::moment1,
    StateKind::moment2};

std::int64_t granule(Tier tier) {
  return tier == Tier::device ? Device::kAlignmentBytes : kPageBytes;
}

// Where an attempt at a plan has the states that are not placed: all in host memory, or all on the
// device, which updates them, so that nothing carries them; or on any tier, with the buffers that
// do.
enum class Homes : std::uint8_t { host, device, tiers };

class Planner {
 public:
  Planner(const PlanInput& input, Homes homes) : input_(input), homes_(homes) {}

  PlanResult run() {
    plan_units();
    add_fixed();
    place_activations();
    place_states();
    for (const Tier tier : {Tier::device, Tier::host}) {
      if (plan_.total_bytes(tier) > budget(tier)) {
        return {false, {}, {tier, plan_.total_bytes(tier), budget(tier)}};
      }
    }
    plan_schedule();
    plan_.traffic = count_traffic(input_, plan_);
    return {true, std::move(plan_), {}};
  }

 private:
  std::int64_t budget(Tier tier) const {
    return tier == Tier::device ? input_.device_memory_bytes : input_.host_memory_bytes;
  }
  std::int64_t room(Tier tier) const { return budget(tier) - plan_.total_bytes(tier); }

  void add(Tier tier, std::string tag, std::int64_t bytes) {
    bytes = round_up(bytes, granule(tier));
    if (bytes == 0) return;
    for (PlannedBuffer& buffer : plan_.buffers) {
      if (buffer.tier == tier && buffer.tag == tag) {
        buffer.bytes += bytes;
        return;
      }
    }
    plan_.buffers.push_back({tier, std::move(tag), bytes});
  }

  std::int64_t shard_elements_max() const { return plan_.unit_elements_max / input_.world_size; }

  // 0: nothing waits between backward and the update.
  std::int64_t gradient_element_bytes(const UnitSize& unit) const {
    if (unit.gradient_contributions * input_.passes > 1) return 4;
    return input_.update == UpdateTime::deferred ? bytes_of(input_.dtypes.gradients) : 0;
  }

  void plan_units() {
    plan_.dtypes = input_.dtypes;
    plan_.world_size = input_.world_size;
    plan_.update = input_.update;
    plan_.durability = input_.durability;
    plan_.stays_on_device = homes_ == Homes::device;
    plan_.device_updates = input_.device_updates && plan_.trains() && homes_ != Homes::host;
    plan_.passes = input_.passes;
    plan_.prefetch = input_.prefetch;
    plan_.block_elements = input_.block_elements;
    plan_.record_bytes = input_.record_bytes;
    plan_.device_memory_bytes = input_.device_memory_bytes;
    plan_.host_memory_bytes = input_.host_memory_bytes;
    for (const UnitSize& size : input_.units) {
      UnitPlan unit;
      unit.name = size.name;
      unit.elements = size.elements;
      unit.frozen = size.frozen || !plan_.trains();
      unit.shard_elements =
          round_up(ceil_div(size.elements, input_.world_size), kShardAlignmentElements);
      unit.gradient_element_bytes = unit.frozen ? 0 : gradient_element_bytes(size);
      plan_.unit_elements_max =
          std::max(plan_.unit_elements_max, unit.shard_elements * input_.world_size);
      plan_.units.push_back(std::move(unit));
    }
    plan_.chunk_elements =
        std::min(shard_elements_max(), round_up(input_.chunk_elements, plan_.block_elements));
    plan_.weight_slots = input_.prefetch + 1;
  }

  void add_fixed() {
    add(Tier::host, kCheckpointStagingTag, plan_.checkpoint_staging_bytes());
    const std::int64_t weight_bytes = element_bytes(StateKind::weights, input_.dtypes);
    for (const PlannedBuffer& buffer : input_.fixed) add(buffer.tier, buffer.tag, buffer.bytes);
    add(Tier::device, "gathered units",
        plan_.weight_slots * plan_.unit_elements_max * weight_bytes);
    if (homes_ == Homes::tiers) {
      plan_.weight_staging_slots = input_.prefetch + 2;
      add(Tier::host, "weight staging",
          plan_.weight_staging_slots * shard_elements_max() * weight_bytes);
    }
    add(Tier::host, kLoadingStagingTag, loading_staging_bytes(plan_));
    if (plan_.trains()) add_training();
    add_checksums();
  }

  void add_training() {
    add(Tier::device, "gradient slots", kGradientSlots * plan_.unit_elements_max * 4);
    if (plan_.device_updates) {
      for (const Tier tier : {Tier::device, Tier::host}) {
        add(tier, kDeviceUpdatesTag, plan_.norm_bytes());
        add(tier, kDeviceUpdatesTag, kDomainBytes);
      }
    }
    if (homes_ == Homes::device) return;
    add(Tier::host, "gradient staging", kGradientStagingSlots * shard_elements_max() * 4);
    if (input_.dtypes.gradients == Dtype::bf16) {
      add(Tier::host, "gradient staging", kGradientStagingSlots * shard_elements_max() * 2);
    }
    if (homes_ == Homes::host) return;
    add(Tier::host, "optimizer staging", optimizer_buffer_bytes(plan_) * kOptimizerBuffers);
    add(Tier::host, "gradient staging", shard_elements_max() * 4);
  }

  // Once, when something may be written to NVMe.
  void add_checksums() { add(Tier::host, kChecksumsTag, plan_.checksum_bytes()); }

  void place_activations() {
    std::int64_t all = 0;
    for (const std::int64_t bytes : input_.record_bytes) {
      all += round_up(bytes, kPageBytes);
      plan_.record_slot_bytes = std::max(plan_.record_slot_bytes, round_up(bytes, kPageBytes));
    }
    const int slots = record_slots_needed(input_.record_walk, plan_.record_lookahead()) + 1;
    const std::int64_t in_slots = slots * plan_.record_slot_bytes;
    Tier tier = Tier::nvme;
    if (input_.placement.activations) {
      tier = *input_.placement.activations;
    } else if (all <= std::max(room(Tier::device), in_slots)) {
      tier = Tier::device;
    } else if (all <= room(Tier::host)) {
      tier = Tier::host;
    }
    plan_.activations = tier;
    if (tier == Tier::device) {
      add(Tier::device, "activations", all);
      return;
    }
    plan_.record_slots = slots;
    add(Tier::device, "activation slots", in_slots);
    add(tier, "activations", all);
    if (tier != Tier::nvme) return;
    add(Tier::host, "activation staging", in_slots);
    if (homes_ != Homes::tiers && plan_.durability == Durability::none) add_checksums();
  }

  void place_states() {
    for (const StateKind kind : kPlacementOrder) {
      const auto wanted = input_.placement.states[static_cast<std::size_t>(kind)];
      for (UnitPlan& unit : plan_.units) {
        const std::int64_t bytes = plan_.shard_bytes(unit, kind);
        Tier tier = Tier::nvme;
        if (wanted) {
          tier = *wanted;
        } else if (homes_ != Homes::host &&
                   (homes_ == Homes::device || bytes <= room(Tier::device))) {
          tier = Tier::device;
        } else if (homes_ == Homes::host || bytes <= room(Tier::host)) {
          tier = Tier::host;
        }
        unit.tiers[static_cast<std::size_t>(kind)] = tier;
        add(tier, name_of(kind), bytes);
        add(Tier::nvme, kCheckpointSlotsTag,
            (plan_.slots(unit, kind) - (tier == Tier::nvme ? 1 : 0)) * bytes);
      }
    }
    for (UnitPlan& unit : plan_.units) {
      unit.updated_on_device = plan_.device_updates && !unit.frozen && is_on_device(unit);
    }
  }

  // All that there is of its state.
  bool is_on_device(const UnitPlan& unit) const {
    return std::ranges::all_of(kPlacementOrder, [&](StateKind kind) {
      return unit.tier(kind) == Tier::device || plan_.shard_bytes(unit, kind) == 0;
    });
  }

  void plan_schedule() {
    plan_.uses =
        schedule_slots(input_.uses, plan_.gathered_units(), plan_.weight_slots, input_.prefetch);
    if (plan_.activations != Tier::device) {
      plan_.accesses =
          schedule_records(input_.record_walk, static_cast<int>(input_.record_bytes.size()),
                           plan_.record_slots, plan_.record_lookahead());
    }
  }

  const PlanInput& input_;
  Homes homes_;
  Plan plan_;
};

bool all_states_in(Tier home, const Plan& plan) {
  return std::all_of(plan.units.begin(), plan.units.end(), [&](const UnitPlan& unit) {
    return std::all_of(unit.tiers.begin(), unit.tiers.end(),
                       [&](Tier tier) { return tier == home; });
  });
}

}  // namespace

PlanResult make_plan(const PlanInput& input) {
  // With everything on a device that updates it nothing moves, and with everything in host memory
  // no staging is needed; if neither fits (or is wanted), staging is paid for first and states fill
  // what is left.
  if (input.device_updates) {
    PlanResult result = Planner(input, Homes::device).run();
    if (result.fits && all_states_in(Tier::device, result.plan)) return result;
  }
  PlanResult result = Planner(input, Homes::host).run();
  if (result.fits && all_states_in(Tier::host, result.plan)) return result;
  return Planner(input, Homes::tiers).run();
}

}  // namespace strata::offload

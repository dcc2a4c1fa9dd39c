#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"
#include "kernels/device/device.h"
#include "offload/plan.h"
#include "offload/plan_traffic.h"
#include "offload/whole_units.h"

namespace strata::offload {

namespace {

constexpr std::array<StateKind, kStateKinds> kPlacementOrder = {
    StateKind::weights, StateKind::gradients, StateKind::remainder, StateKind::moment1,
    StateKind::moment2};

std::int64_t granule(Tier tier) {
  return tier == Tier::device ? Device::kAlignmentBytes : kPageBytes;
}

// The units whose state the device holds whole, whatever becomes of the others.
enum class WholeUnits : std::uint8_t { none, as_fit, all };

class Planner {
 public:
  Planner(const PlanInput& input, Homes homes, WholeUnits whole)
      : input_(input), whole_units_(whole) {
    plan_.homes = homes;
  }

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
    plan_.device_updates = input_.device_updates && plan_.trains() && plan_.homes != Homes::host;
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
    if (plan_.homes == Homes::tiers) {
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
        add(tier, kDeviceUpdatesTag, norm_bytes(shard_elements_max()));
        add(tier, kDeviceUpdatesTag, kDomainBytes);
      }
    }
    if (plan_.homes == Homes::device) return;
    add(Tier::host, "gradient staging", kGradientStagingSlots * shard_elements_max() * 4);
    if (input_.dtypes.gradients == Dtype::bf16) {
      add(Tier::host, "gradient staging", kGradientStagingSlots * shard_elements_max() * 2);
    }
    if (plan_.homes != Homes::tiers) return;
    add(Tier::host, "optimizer staging", optimizer_buffer_bytes(plan_) * kOptimizerBuffers);
    add(Tier::host, "gradient staging", shard_elements_max() * 4);
  }

  // Once, when something may be written to NVMe.
  void add_checksums() { add(Tier::host, kChecksumsTag, plan_.checksum_bytes()); }

  void place_activations() {
    constexpr int kSpare = 1;
    std::int64_t all = 0;
    for (const std::int64_t bytes : input_.record_bytes) all += round_up(bytes, kPageBytes);
    RecordSlots slots = plan_record_slots(input_.record_walk, input_.record_bytes,
                                          plan_.record_lookahead(), kSpare);
    const std::int64_t in_slots = slots.bytes();
    Tier tier = Tier::nvme;
    if (input_.placement.activations) {
      tier = *input_.placement.activations;
    } else if (all <= std::max(room(Tier::device) - wanted_bytes(Tier::device), in_slots)) {
      tier = Tier::device;
    } else if (all <= room(Tier::host) - wanted_bytes(Tier::host)) {
      tier = Tier::host;
    }
    plan_.activations = tier;
    if (tier == Tier::device) {
      add(Tier::device, "activations", all);
      return;
    }
    plan_.record_slots = std::move(slots);
    add(Tier::device, "activation slots", in_slots);
    add(tier, "activations", all);
    if (tier != Tier::nvme) return;
    add(Tier::host, "activation staging", in_slots);
    if (plan_.homes != Homes::tiers && plan_.durability == Durability::none) add_checksums();
  }

  void place_states() {
    is_whole_.assign(plan_.units.size(), whole_units_ == WholeUnits::all);
    TierBytes claimed = claimed_bytes();
    if (whole_units_ == WholeUnits::as_fit) {
      is_whole_ =
          choose_whole_units(input_, plan_, room(Tier::device) - claimed[index(Tier::device)]);
      claimed = claimed_bytes();
    }
    for (const StateKind kind : kPlacementOrder) {
      for (std::size_t u = 0; u < plan_.units.size(); ++u) {
        UnitPlan& unit = plan_.units[u];
        const std::int64_t bytes = plan_.shard_bytes(unit, kind);
        const std::optional<Tier> claim = claim_of(u, kind);
        if (claim) claimed[index(*claim)] -= bytes;
        const auto has_room = [&](Tier tier) { return bytes <= room(tier) - claimed[index(tier)]; };
        const Tier tier = claim                    ? *claim
                          : has_room(Tier::device) ? Tier::device
                          : has_room(Tier::host)   ? Tier::host
                                                   : Tier::nvme;
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

  // Of the states that --place has there.
  std::int64_t wanted_bytes(Tier tier) const {
    std::int64_t bytes = 0;
    for (const StateKind kind : kPlacementOrder) {
      if (input_.placement.states[static_cast<std::size_t>(kind)] != tier) continue;
      for (const UnitPlan& unit : plan_.units) bytes += plan_.shard_bytes(unit, kind);
    }
    return bytes;
  }

  static std::size_t index(Tier tier) { return static_cast<std::size_t>(tier); }

  // Where a state lies whatever room the others leave.
  std::optional<Tier> claim_of(std::size_t unit, StateKind kind) const {
    const auto& wanted = input_.placement.states[static_cast<std::size_t>(kind)];
    if (wanted) return wanted;
    if (is_whole_[unit] != 0) return Tier::device;
    return plan_.homes == Homes::tiers ? std::nullopt : std::optional(Tier::host);
  }

  using TierBytes = std::array<std::int64_t, kTiers>;
  TierBytes claimed_bytes() const {
    TierBytes bytes{};
    for (std::size_t u = 0; u < plan_.units.size(); ++u) {
      for (const StateKind kind : kPlacementOrder) {
        const std::optional<Tier> claim = claim_of(u, kind);
        if (claim) bytes[index(*claim)] += plan_.shard_bytes(plan_.units[u], kind);
      }
    }
    return bytes;
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
          schedule_records(input_.record_walk, plan_.record_slots, plan_.record_lookahead());
    }
  }

  const PlanInput& input_;
  WholeUnits whole_units_;
  std::vector<std::uint8_t> is_whole_;  // per unit
  Plan plan_;
};

// Whether --place let every unit's state lie where the plan's homes are.
bool keeps_together(const Plan& plan) {
  const auto count = [&](Tier tier) {
    return std::ranges::count_if(plan.units, [&](const UnitPlan& unit) {
      return std::ranges::count(unit.tiers, tier) == kStateKinds;
    });
  };
  const bool any_on_device = count(Tier::device) > 0;
  return count(Tier::device) + count(Tier::host) == std::ssize(plan.units) &&
         any_on_device == (plan.homes != Homes::host);
}

std::int64_t nvme_bytes(const Plan& plan) {
  return plan.nvme_read_bytes() + plan.nvme_written_bytes();
}

// Staging is paid for first, and states fill what is left. Whole units on the device leave the
// processors less to do; that is not worth a slower step where the drive is the slowest: by more
// than what rounding to whole shards comes to, a state that is read and written.
PlanResult spread(const PlanInput& input) {
  PlanResult by_kind = Planner(input, Homes::tiers, WholeUnits::none).run();
  if (!input.device_updates || !by_kind.fits) return by_kind;
  PlanResult by_unit = Planner(input, Homes::tiers, WholeUnits::as_fit).run();
  if (!by_unit.fits) return by_kind;
  const std::int64_t rounding = by_kind.plan.unit_elements_max / input.world_size * 2 * 4;
  return nvme_bytes(by_unit.plan) <= nvme_bytes(by_kind.plan) + rounding ? by_unit : by_kind;
}

}  // namespace

PlanResult make_plan(const PlanInput& input) {
  constexpr std::pair<Homes, WholeUnits> kTogether[] = {{Homes::device, WholeUnits::all},
                                                        {Homes::units, WholeUnits::as_fit},
                                                        {Homes::host, WholeUnits::none}};
  for (const auto& [homes, whole] : kTogether) {
    if (whole != WholeUnits::none && !input.device_updates) continue;
    PlanResult result = Planner(input, homes, whole).run();
    if (result.fits && keeps_together(result.plan)) return result;
  }
  return spread(input);
}

}  // namespace strata::offload

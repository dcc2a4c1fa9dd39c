#include "offload/whole_units.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "offload/plan_traffic.h"

namespace strata::offload {

namespace {

struct Candidate {
  std::size_t unit;
  std::int64_t bytes;  // of what the user has not placed
  double spared;       // bytes of a step for each that is held
};

std::int64_t spared_bytes(const PlanInput& input, const Plan& plan, std::size_t index) {
  const UnitPlan& unit = plan.units[index];
  const auto uses = std::ranges::count(input.uses, static_cast<int>(index));
  const std::int64_t weights = uses * plan.shard_bytes(unit, StateKind::weights);
  if (unit.frozen) return weights * input.passes;
  const std::int64_t gradients =
      input.units[index].gradient_contributions * unit.shard_elements * 4;
  return (weights + gradients) * input.passes + update_bytes(plan, unit.shard_elements);
}

// Nothing where the user wants some of its state elsewhere.
std::optional<Candidate> candidate(const PlanInput& input, const Plan& plan, std::size_t index) {
  std::int64_t unplaced = 0;
  std::int64_t held = 0;
  for (std::size_t k = 0; k < kStateKinds; ++k) {
    const std::int64_t bytes = plan.shard_bytes(plan.units[index], static_cast<StateKind>(k));
    const std::optional<Tier>& wanted = input.placement.states[k];
    if (bytes > 0 && wanted && *wanted != Tier::device) return std::nullopt;
    if (!wanted) unplaced += bytes;
    held += bytes;
  }
  return Candidate{
      index, unplaced,
      static_cast<double>(spared_bytes(input, plan, index)) / static_cast<double>(held)};
}

}  // namespace

std::vector<std::uint8_t> choose_whole_units(const PlanInput& input, const Plan& plan,
                                             std::int64_t room_bytes) {
  std::vector<Candidate> candidates;
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    if (const auto found = candidate(input, plan, u)) candidates.push_back(*found);
  }
  std::ranges::stable_sort(candidates, std::greater(), &Candidate::spared);
  std::vector<std::uint8_t> is_whole(plan.units.size(), 0);
  for (const Candidate& next : candidates) {
    if (next.bytes > room_bytes) continue;
    is_whole[next.unit] = 1;
    room_bytes -= next.bytes;
  }
  return is_whole;
}

}  // namespace strata::offload

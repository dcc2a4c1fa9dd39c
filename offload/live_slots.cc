#include "offload/live_slots.h"

#include "kernels/base/error.h"

namespace strata::offload {

LiveSlots::LiveSlots(const Plan& plan) : units_(plan.units.size()) {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    units_[u].slots = plan.slots(plan.units[u], StateKind::weights);
  }
}

int LiveSlots::live(int unit) const { return at(unit).live; }

bool LiveSlots::is_protected(int unit) const { return at(unit).is_protected; }

int LiveSlots::target(int unit) const {
  return is_protected(unit) && at(unit).slots == 2 ? 1 - live(unit) : live(unit);
}

void LiveSlots::end_update(int unit) {
  at(unit).live = target(unit);
  at(unit).is_protected = false;
}

void LiveSlots::protect_all() {
  for (Unit& unit : units_) unit.is_protected = true;
}

void LiveSlots::fill(std::span<std::uint8_t> live) const {
  STRATA_CHECK(live.size() == units_.size());
  for (std::size_t u = 0; u < live.size(); ++u) {
    live[u] = static_cast<std::uint8_t>(units_[u].live);
  }
}

void LiveSlots::adopt(std::span<const std::uint8_t> live) {
  STRATA_CHECK(live.size() == units_.size());
  for (std::size_t u = 0; u < live.size(); ++u) {
    STRATA_CHECK(live[u] < units_[u].slots, "unit {} has no slot {}", u, live[u]);
    units_[u].live = live[u];
  }
  protect_all();
}

}  // namespace strata::offload

#include "offload/slot_schedule.h"

#include <limits>

#include "kernels/base/error.h"

namespace strata::offload {

namespace {

std::int64_t next_use(std::span<const int> uses, std::size_t after, int unit) {
  for (std::size_t i = after; i < uses.size(); ++i) {
    if (uses[i] == unit) return static_cast<std::int64_t>(i);
  }
  return std::numeric_limits<std::int64_t>::max();
}

}  // namespace

std::vector<ScheduledUse> schedule_slots(std::span<const int> uses,
                                         std::span<const std::uint8_t> needs_slot, int slots,
                                         int prefetch) {
  STRATA_CHECK(slots >= prefetch + 1, "{} slots for prefetch {}", slots, prefetch);
  struct Slot {
    int unit = -1;
    std::int64_t last_use = std::numeric_limits<std::int64_t>::min();
  };
  std::vector<Slot> state(static_cast<std::size_t>(slots));
  std::vector<ScheduledUse> schedule;
  schedule.reserve(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const int unit = uses[i];
    const auto position = static_cast<std::int64_t>(i);
    if (needs_slot[static_cast<std::size_t>(unit)] == 0) {
      schedule.push_back({unit, -1, true});
      continue;
    }
    int chosen = -1;
    bool hit = false;
    std::int64_t farthest = -1;
    for (int s = 0; s < slots && !hit; ++s) {
      const Slot& slot = state[static_cast<std::size_t>(s)];
      if (slot.unit == unit) {
        chosen = s;
        hit = true;
      } else if (slot.last_use < position - prefetch) {
        const std::int64_t next =
            slot.unit < 0 ? std::numeric_limits<std::int64_t>::max() : next_use(uses, i, slot.unit);
        if (next > farthest) {
          farthest = next;
          chosen = s;
        }
      }
    }
    STRATA_CHECK(chosen >= 0);
    state[static_cast<std::size_t>(chosen)] = {unit, position};
    schedule.push_back({unit, chosen, hit});
  }
  return schedule;
}

}  // namespace strata::offload

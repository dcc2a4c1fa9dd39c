// SlotSchedule: which device slot each use of a unit goes to, known before the first step.
//
// A step visits units in a fixed sequence of uses. A gathered unit occupies one of a few equal
// slots; when a use's unit is still in a slot the use is a hit and nothing moves. Otherwise the
// slot whose content is needed again last (or never) is replaced (Belady 1966), among those that
// are free by then: the slots of the `prefetch` uses before it are still being read by compute.
// Pure function of its arguments; the plan counts traffic with it and the streamer executes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace strata::offload {

struct ScheduledUse {
  int unit = 0;
  int slot = -1;     // -1: the unit is resident on the device and needs no slot
  bool hit = false;  // the slot already holds the unit
};

// `needs_slot[unit]`: false for units whose whole weights live on the device. slots >= prefetch
// + 1.
std::vector<ScheduledUse> schedule_slots(std::span<const int> uses,
                                         std::span<const std::uint8_t> needs_slot, int slots,
                                         int prefetch);

}  // namespace strata::offload

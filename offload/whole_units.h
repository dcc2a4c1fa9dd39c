// The units whose state a device that updates holds whole, where it has no room for all.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/plan.h"

namespace strata::offload {

// As many as fit `room_bytes` beside what the user has placed there: per unit, whether it is one.
// First those that spare a step the most per byte held: bytes that are moved, and those that the
// processors' update passes over. `plan`: before its states are placed.
std::vector<std::uint8_t> choose_whole_units(const PlanInput& input, const Plan& plan,
                                             std::int64_t room_bytes);

}  // namespace strata::offload

// The bytes that a step moves over each link, counted from a plan's placement and schedules.
#pragma once

#include <array>

#include "offload/plan.h"

namespace strata::offload {

// `plan` is complete but for its traffic. Of one rank and one step with its update, wherever that
// is made.
std::array<PhaseTraffic, kPhases> count_traffic(const PlanInput& input, const Plan& plan);

// What an update of so many elements passes over: state read and written, gradients read.
std::int64_t update_bytes(const Plan& plan, std::int64_t elements);
// Of all updates that a GPU makes in a step.
std::int64_t device_update_bytes(const Plan& plan);
// What a GPU passes over in a step for the gradient of a unit that it updates: its sum, what is
// kept of it, and the norm.
std::int64_t device_gradient_bytes(const PlanInput& input, const Plan& plan, std::size_t unit);

}  // namespace strata::offload

// A forecast made twice, because the machine's rates were measured twice: what both say in the
// mean.
#pragma once

#include <span>

#include "engine/tune/plan_search.h"

namespace strata::engine {

// Makes what is forecast of the plans, the bound too, the mean of that and of what `again` says.
// Returns by what part the predictions of a step differ at most.
double take_mean(std::span<RankedPlan> plans, const StepModel& again);

}  // namespace strata::engine

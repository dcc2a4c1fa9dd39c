// Trials: plans that are trained for a few steps, each by a process of its own, to see what their
// steps take.
#pragma once

#include "engine/tune/measured_steps.h"
#include "engine/tune/plan_search.h"

namespace strata::engine {

// Runs `strata train` with the plan and adds its steps to `measured`, or its failure. The first
// steps of a run are not counted: the optimizer has nothing to do yet, and memory and drives
// settle. Keeps nothing (without_outputs()). False where it failed.
bool run_trial(const RankedPlan& plan, MeasuredSteps& measured);

}  // namespace strata::engine

// Trials: plans that are trained for a few steps, each by a process of its own, to see what their
// steps take.
#pragma once

#include <span>
#include <vector>

#include "engine/run/status_line.h"
#include "engine/tune/plan_search.h"
#include "engine/tune/tune_report.h"

namespace strata::engine {

// Runs `strata train` with each plan in turn, the whole list kRounds times, so that what changes
// with time falls on all of them. The first steps of each run are not counted: the optimizer has
// nothing to do yet, and memory and drives settle. Keeps nothing (without_outputs()). A trial that
// fails is reported in its plan's list; `status` is told how far it is.
std::vector<MeasuredSteps> measure_plans(std::span<const RankedPlan> plans, StatusLine& status);

}  // namespace strata::engine

// What would make a plan fit that does not: the budgets that do, and the smallest change of one
// other option, found by asking the planner.
#pragma once

#include <functional>
#include <string>

#include "engine/plan/run_setup.h"

namespace strata::engine {

// "--device-memory 18MiB would fit, and so would --pass 3". `setup` is complete but for the plan;
// `fits` tells whether a plan for other options does.
std::string budget_advice(const RunSetup& setup, const std::function<bool(const Options&)>& fits);

}  // namespace strata::engine

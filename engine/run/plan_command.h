// The command `plan`.
#pragma once

#include "engine/options/options.h"
#include "engine/run/ranks.h"

namespace strata::engine {

// Prints the plan that `train` would follow, without training; returns the exit code. Throws what
// run_on_ranks() reports.
int run_plan(const Options& options, Ranks& ranks);

}  // namespace strata::engine

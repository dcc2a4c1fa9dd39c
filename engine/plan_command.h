// The command `plan`.
#pragma once

#include "engine/options.h"

namespace strata::engine {

// Prints the plan that `train` would follow, without training; returns the exit code. Throws what
// main() reports.
int run_plan(const Options& options);

}  // namespace strata::engine

// `strata train --device-memory auto`, `--host-memory auto`: a run whose budgets and tiers are
// those that a search finds fastest on this machine, of all that compute the same bits.
#pragma once

#include "engine/options/options.h"
#include "engine/run/measured_machine.h"
#include "engine/run/ranks.h"

namespace strata::engine {

// Whether the program was started with one of the two.
bool asks_for_auto_memory(const Options& options);

// The options with the budgets that were not given a size, --place, --activations, --recompute,
// --prefetch and --chunk-size as rank 0's search chose them, where they were not given. Budgets are
// no larger than the plan needs, and leave the machine the margin of memory_budgets.h. Says what
// was taken and what is left. Collective. Throws what search_plans() throws, and ConfigError where
// the machine is not known and must not be measured.
Options with_auto_memory(const Options& options, Measuring measuring, Ranks& ranks);

}  // namespace strata::engine

// The command `generate`: text that goes on from a prompt.
#pragma once

#include "engine/options/options.h"
#include "engine/run/ranks.h"

namespace strata::engine {

// Generates as `options` say, on this rank; rank 0 prints. Returns the exit code. Throws what
// run_on_ranks() reports.
int run_generate(const Options& options, Ranks& ranks);

}  // namespace strata::engine

// The command `tune`.
#pragma once

#include "engine/options/options.h"
#include "engine/run/ranks.h"

namespace strata::engine {

// Prints the plans whose steps are predicted to be shortest on this machine, or with --machine on
// the one that it describes, and how to train with each; with --measure it trains. Returns the exit
// code. Throws what run_on_ranks() reports.
int run_tune(const Options& options, Ranks& ranks);

// What tune refuses without looking at the machine. Throws ConfigError.
void check_tuned_options(const Options& options);

}  // namespace strata::engine

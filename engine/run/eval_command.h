// The command `eval`: loss, perplexity and accuracy of a model on data.
#pragma once

#include "engine/options/options.h"
#include "engine/run/ranks.h"

namespace strata::engine {

// Evaluates as `options` say, on this rank; rank 0 prints. Returns the exit code. Throws what
// run_on_ranks() reports.
int run_eval(const Options& options, Ranks& ranks);

}  // namespace strata::engine

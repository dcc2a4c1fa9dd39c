// The command `train`.
#pragma once

#include "engine/options/options.h"
#include "engine/run/ranks.h"

namespace strata::engine {

// Trains as `options` say, on this rank; returns the exit code. Throws what run_on_ranks() reports.
int run_train(const Options& options, Ranks& ranks);

}  // namespace strata::engine

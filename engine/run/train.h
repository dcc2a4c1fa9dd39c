// The command `train`.
#pragma once

#include <chrono>

#include "engine/options/options.h"
#include "engine/run/ranks.h"

namespace strata::engine {

// Trains as `options` say, on this rank; returns the exit code. `started`: when the program did,
// for the summary. Throws what run_on_ranks() reports.
int run_train(const Options& options, Ranks& ranks, std::chrono::steady_clock::time_point started);

}  // namespace strata::engine

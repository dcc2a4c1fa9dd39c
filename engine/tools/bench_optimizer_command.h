// `strata bench optimizer`: nanoseconds per parameter of the optimizer's update, and how near that
// is to what memory allows, by variant and number of threads.
#pragma once

#include "engine/options/options.h"

namespace strata::engine {

// Throws ConfigError.
void check_bench_optimizer_options(const Options& options);

// Returns the exit code.
int run_bench_optimizer(const Options& options);

}  // namespace strata::engine

// `strata bench io`: what the drives under --nvme give, by block size and depth, through the path
// that training uses; and the options that follow from it.
//
// It measures on a file of its own in each directory, which has no name once it is made and so is
// gone however the program ends.
#pragma once

#include "engine/options/options.h"

namespace strata::engine {

// Throws ConfigError.
void check_bench_io_options(const Options& options);

// Returns the exit code. Throws ConfigError when a directory cannot be used, IoError.
int run_bench_io(const Options& options);

}  // namespace strata::engine

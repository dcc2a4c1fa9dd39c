// `strata inspect RUN|DIR...`: what lies there: of a run, the step it goes on from, both superblock
// copies of each rank, and whether it lives. Takes no lock that a living run could meet, and
// changes nothing; what a run is writing at the moment may show as a problem of a copy.
#pragma once

#include "engine/options/options.h"

namespace strata::engine {

// Throws ConfigError when nothing is named.
void check_inspect_options(const Options& options);

// Prints; returns the exit code. Throws what find_targets() throws.
int run_inspect(const Options& options);

}  // namespace strata::engine

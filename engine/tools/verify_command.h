// `strata verify RUN|DIR...`: reads all of the newest commit (of every rank that is here) and of
// portable checkpoints, compares every checksum, and names each damaged range with its parameters,
// file and offset. Goes on to the end, at the drives' speed, in bounded memory.
//
// Of the commit before it says whether that is intact too: it need not be, once a run has gone on.
#pragma once

#include "engine/options/options.h"

namespace strata::engine {

// Throws ConfigError when nothing is named.
void check_verify_options(const Options& options);

// Prints; returns 0 when everything is intact, 1 when something is damaged or missing. Throws
// ConfigError for a store that a living run has locked; what find_targets() throws.
int run_verify(const Options& options);

}  // namespace strata::engine

// `strata gc DIR...`: reclaims the space of stores whose runs have ended or died.
//
// Per file: in use: never touched. Stale: removed. Damaged (named like a store, but its header
// cannot be read): removed with --force only.
#pragma once

#include "engine/options/options.h"

namespace strata::engine {

// Throws ConfigError when no directory is given.
void check_gc_options(const Options& options);

// Prints what lies in the directories and what became of it; returns the exit code. Throws IoError.
int run_gc(const Options& options);

}  // namespace strata::engine

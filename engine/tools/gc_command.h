// `strata gc DIR...`: reclaims the space of stale stores: of runs that have ended or died.
//
// Per file: in use: never touched. Stale: removed. Damaged (named like a store, but its header
// cannot be read): removed with --force only.
#pragma once

#include <string>

#include "engine/options/options.h"
#include "offload/store/store_search.h"

namespace strata::engine {

// Throws ConfigError when no directory is given.
void check_gc_options(const Options& options);

// Prints what lies in the directories and what became of it; returns the exit code. Throws IoError
// at the end, when a directory could not be read or a store not be removed.
int run_gc(const Options& options);

// For whoever finds what gc would remove: "2 stale stores and 1 damaged store, 12 GiB", and what to
// do about it. `left` has some.
std::string left_over_text(const store::LeftOver& left);
std::string reclaim_advice(const store::LeftOver& left, const std::string& directory);

}  // namespace strata::engine

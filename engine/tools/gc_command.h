// `strata gc DIR...`: reclaims the space of stores that no run goes on in or could go on from
// (store_standing.h).
//
// Everything is judged before anything is removed. Two that run at once do not mistake each other
// for living runs: they look with shared locks, and one of them removes.
#pragma once

#include <string>

#include "engine/options/options.h"
#include "engine/tools/store_standing.h"

namespace strata::engine {

// Throws ConfigError when no directory is given.
void check_gc_options(const Options& options);

// Prints what lies in the directories and what became of it; returns the exit code. Throws IoError
// at the end, when a directory could not be read or a store not be removed.
int run_gc(const Options& options);

// For whoever finds what gc would remove: "2 stale stores and 1 damaged or without its run, 12
// GiB", and what to do about it. `left` has some.
std::string left_over_text(const LeftOver& left);
std::string reclaim_advice(const LeftOver& left, const std::string& directory);

}  // namespace strata::engine

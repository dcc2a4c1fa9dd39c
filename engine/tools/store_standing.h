// StoreStanding: whether anybody still needs a store, by its files and by what the run folder that
// made it says now; what `strata gc` may do with it.
//
//   a run goes on in it ───────────────────────────────────────────────▶ in_use         stays
//   holds a state, and its run's store.json names it or is unreadable ─▶ resumable      stays
//   holds a state, and its run's folder has no store.json, or that
//     names another store: the run may have been moved ────────────────▶ orphan         --force
//   anything else ─────────────────────────────────────────────────────▶ stale          goes
//   header unreadable ─────────────────────────────────────────────────▶ damaged        --force
//   of another version of the format ──────────────────────────────────▶ other_version  stays
//
// A state is a commit or a clean mark: what a run can go on from. The superblocks that tell are in
// the file of a rank's first directory, which is looked for among those that are judged together
// and where store.json says; what cannot be told counts as a state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "offload/store/store_search.h"

namespace strata::engine {

enum class StoreStanding : std::uint8_t {
  in_use,
  resumable,
  orphan,
  stale,
  damaged,
  other_version,
};
const char* name_of(StoreStanding standing);  // "kept for resuming"

struct JudgedStore {
  store::FoundStore found;
  StoreStanding standing;
  std::string reason;  // a sentence for people; may be empty
};

std::vector<JudgedStore> judge(std::vector<store::FoundStore> found);

// What `strata gc` would remove from a directory.
struct LeftOver {
  int stale = 0;
  int forced = 0;          // damaged ones and orphans: with --force only
  std::int64_t bytes = 0;  // on disk, of both
};
// Throws IoError when the directory or a file of it cannot be read.
LeftOver left_over(const std::string& directory);

}  // namespace strata::engine

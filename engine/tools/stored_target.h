// What lies in the folders that people name to `strata inspect` and `strata verify`.
//
//   folder with store.json or options.json ─▶ a run: its store, in the other directories that are
//                                             named, in the folder, or where its files were made
//   folder with strata.json ────────────────▶ a portable checkpoint, or a model
//   any other directory ────────────────────▶ the other stores whose files lie in these directories
#pragma once

#include <string>
#include <vector>

#include "engine/portable/layout.h"

namespace strata::engine {

struct StoredRank {
  int rank = 0;
  std::string last_in;             // "DIR, DIR on HOST" by the run's pointer; empty: not known
  std::vector<std::string> files;  // empty: not here
};

struct StoredTarget {
  std::string run_folder;         // empty: a store that was found by its files
  std::string run_id;             // of the store; empty: the run has none
  std::vector<StoredRank> ranks;  // all of the store's

  // "run DIR", "store 0011..."
  std::string name() const;
};

struct StoredTargets {
  std::vector<StoredTarget> stores;
  std::vector<std::string> portable;  // folders
  std::vector<std::string> problems;  // files with the name of a store that cannot be read as one
};

// Throws ConfigError when one is no directory, FormatError for a store.json that cannot be read,
// IoError.
StoredTargets find_targets(const std::vector<std::string>& folders);

// "portable checkpoint", "model"
const char* kind_of(PortableContent content);

// "rank 1: not here; it was last in DIR on HOST: …"
std::string missing_text(const StoredRank& rank);

}  // namespace strata::engine

// StoreLook: the store of a run as it can be looked at beside a living run: of each rank its files
// and its superblocks, and what a resume would make of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/tools/stored_target.h"
#include "offload/store/shard_files.h"

namespace strata::engine {

struct RankLook {
  StoredRank place;
  std::optional<store::ShardFiles> files;
  store::FoundCommits commits;
  std::int64_t disk_bytes = 0;
  bool in_use = false;
  std::string problem;  // why there are no files, or no commits
};

struct StoreLook {
  std::vector<RankLook> ranks;
  std::optional<std::int64_t> step;  // that a resume would go on from
  std::string state;                 // the same as a sentence, or why there is none
  bool in_use() const;
};

StoreLook look_at(const StoredTarget& target);

// The step of the last whole line of a run's log; nothing: there is none, or no run folder.
std::optional<std::int64_t> last_logged_step(const std::string& run_folder);

}  // namespace strata::engine

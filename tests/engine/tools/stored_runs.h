// Runs as they lie on disk, without having been trained: a folder with a pointer, and the stores of
// its ranks with commits of known bytes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "engine/checkpoint/store_pointer.h"
#include "offload/store/stored_shard.h"
#include "tests/offload/store/filled_store.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine::testing {

// Two ranks, each with a store of two slots in two directories, of which they share both.
struct StoredRun {
  explicit StoredRun(const std::vector<std::int64_t>& steps) {
    std::vector<StoreOfRank> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      const auto volume = store::testing::make_store(directories(), identity(rank), manifest);
      if (!steps.empty()) store::testing::commit_steps(*volume, manifest, steps);
      volume->keep();
      ranks.push_back({"somewhere", directories()});
    }
    replace_store_pointer(folder.path(), {run_id, ranks});
  }

  std::vector<std::string> directories() const { return {first.path(), second.path()}; }
  store::StoreIdentity identity(int rank) const { return {run_id, rank, 2, folder.path()}; }
  std::string file(int rank, const test::TemporaryFolder& directory) const {
    return directory.path(store::store_file_name(identity(rank)));
  }
  // As a run has it that goes on.
  store::StoredShard open(int rank, io::VolumeAccess access) const {
    return {store::StoredShard::find_files(directories(), run_id, rank),
            access,
            {.kind = io::EngineKind::threads},
            nullptr};
  }
  // Zeros over the first page of a block, of the commit that is newest (0) or before it (1).
  void damage(int rank, std::size_t commit, int unit, offload::StateKind kind,
              std::int64_t block) const {
    const store::StoredShard shard = open(rank, io::VolumeAccess::exclusive);
    const auto at = static_cast<std::size_t>(unit);
    const std::size_t live = shard.commits().valid.at(commit).table.live_slots.at(at);
    const store::Extent& extent = *manifest.units[at].extents[static_cast<std::size_t>(kind)];
    const store::testing::Staging zeros;
    io::IoGroup group;
    shard.volume().write(extent.slot_offsets.at(live) + block * shard.blocks().block_bytes(kind),
                         zeros.buffer.span(0, kPageBytes), group);
    group.wait();
  }

  const test::TemporaryFolder folder, first, second;
  const std::string run_id = store::new_run_id();
  const store::Manifest manifest = store::testing::two_slot_manifest();
};

}  // namespace strata::engine::testing

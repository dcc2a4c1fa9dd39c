#include "engine/tools/stored_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/checkpoint/portable_reader.h"
#include "engine/checkpoint/run_options.h"
#include "engine/checkpoint/store_pointer.h"
#include "kernels/base/error.h"
#include "offload/store/shard_files.h"
#include "offload/store/store_search.h"

namespace strata::engine {

namespace {

namespace fs = std::filesystem;

bool has_file(const std::string& folder, const char* name) {
  return fs::exists(fs::path(folder) / name);
}

StoredTarget run_target(const std::string& folder) {
  StoredTarget target{folder, "", {}};
  const std::optional<StorePointer> pointer = read_store_pointer(folder);
  if (!pointer) return target;
  target.run_id = pointer->run_id;
  for (const StoreOfRank& made : pointer->ranks) {
    const int rank = static_cast<int>(target.ranks.size());
    std::vector<std::string> directories = made.directories;
    directories.push_back(folder);
    target.ranks.push_back({rank,
                            fmt::format("{} on {}", fmt::join(made.directories, ", "), made.host),
                            store::find_shard_files(directories, pointer->run_id, rank)});
  }
  return target;
}

// Adds a file to the store that it belongs to.
void add_file(std::vector<StoredTarget>& stores, const store::FoundStore& found) {
  const std::string run_id = store::format_run_id(found.header->run_id);
  auto target = std::find_if(stores.begin(), stores.end(), [&](const StoredTarget& known) {
    return known.run_folder.empty() && known.run_id == run_id;
  });
  if (target == stores.end()) {
    target = stores.insert(target, {"", run_id, {}});
    for (int rank = 0; rank < found.header->world_size; ++rank) {
      target->ranks.push_back({rank, "", {}});
    }
  }
  const auto rank = static_cast<std::size_t>(found.header->rank);
  if (rank < target->ranks.size()) target->ranks[rank].files.push_back(found.file.path());
}

}  // namespace

std::string StoredTarget::name() const {
  return run_folder.empty() ? "store " + run_id : "run " + run_folder;
}

StoredTargets find_targets(const std::vector<std::string>& folders) {
  StoredTargets targets;
  for (const std::string& folder : folders) {
    if (!fs::is_directory(folder)) {
      throw_error<ConfigError>(
          "{}: no such directory; name a run's folder, a portable checkpoint "
          "or directories with stores",
          folder);
    }
    if (is_portable_checkpoint(folder)) {
      targets.portable.push_back(folder);
    } else if (has_file(folder, kStorePointerFile) || has_file(folder, kRunOptionsFile)) {
      targets.stores.push_back(run_target(folder));
    } else {
      for (const store::FoundStore& found : store::find_stores(folder)) {
        if (found.header) {
          add_file(targets.stores, found);
        } else {
          targets.problems.push_back(
              fmt::format("store file {}: {}", found.file.path(), found.problem));
        }
      }
    }
  }
  return targets;
}

std::string missing_text(const StoredRank& rank) {
  return fmt::format("rank {}: not here{}", rank.rank,
                     rank.made_in.empty() ? "" : "; it was made in " + rank.made_in);
}

}  // namespace strata::engine

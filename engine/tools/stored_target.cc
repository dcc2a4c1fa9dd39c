#include "engine/tools/stored_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/checkpoint/run_options.h"
#include "engine/checkpoint/store_pointer.h"
#include "engine/portable/reader.h"
#include "kernels/base/error.h"
#include "offload/store/shard_files.h"
#include "offload/store/store_search.h"

namespace strata::engine {

namespace {

namespace fs = std::filesystem;

bool has_file(const std::string& folder, const char* name) {
  return fs::exists(fs::path(folder) / name);
}

// `named`: directories besides.
StoredTarget run_target(const std::string& folder, const std::vector<std::string>& named) {
  StoredTarget target{folder, "", {}};
  const std::optional<StorePointer> pointer = read_store_pointer(folder);
  if (!pointer) return target;
  target.run_id = pointer->run_id;
  for (const StoreOfRank& made : pointer->ranks) {
    const int rank = static_cast<int>(target.ranks.size());
    std::vector<std::string> directories = named;
    directories.push_back(folder);
    directories.insert(directories.end(), made.directories.begin(), made.directories.end());
    target.ranks.push_back({rank,
                            fmt::format("{} on {}", fmt::join(made.directories, ", "), made.host),
                            store::find_shard_files(directories, pointer->run_id, rank)});
  }
  return target;
}

// Adds a file to the store that it belongs to, unless that is a run's, which has looked for it.
void add_file(std::vector<StoredTarget>& stores, const store::FoundStore& found) {
  const std::string run_id = store::format_run_id(found.header->run_id);
  auto target = std::find_if(stores.begin(), stores.end(),
                             [&](const StoredTarget& known) { return known.run_id == run_id; });
  if (target != stores.end() && !target->run_folder.empty()) return;
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
  std::vector<std::string> runs, directories;
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
      runs.push_back(folder);
    } else {
      directories.push_back(folder);
    }
  }
  for (const std::string& run : runs) targets.stores.push_back(run_target(run, directories));
  for (const std::string& directory : directories) {
    for (const store::FoundStore& found : store::find_stores(directory)) {
      if (found.header) {
        add_file(targets.stores, found);
      } else {
        targets.problems.push_back(
            fmt::format("store file {}: {}", found.file.path(), found.problem));
      }
    }
  }
  return targets;
}

const char* kind_of(PortableContent content) {
  return content == PortableContent::weights ? "model" : "portable checkpoint";
}

std::string missing_text(const StoredRank& rank) {
  if (rank.last_in.empty()) return fmt::format("rank {}: not here", rank.rank);
  return fmt::format(
      "rank {}: not here; it was last in {}: give the directories where its files are after the "
      "run",
      rank.rank, rank.last_in);
}

}  // namespace strata::engine

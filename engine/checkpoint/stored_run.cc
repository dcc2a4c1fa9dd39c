#include "engine/checkpoint/stored_run.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "engine/checkpoint/commit_fillers.h"
#include "engine/checkpoint/opened_store.h"
#include "engine/step/agreement.h"
#include "engine/step/shared_text.h"
#include "kernels/base/machine.h"

namespace strata::engine {

namespace {

namespace fs = std::filesystem;

// Whether a store with the manifest `stored` has everything of `wanted` that lasts where it wants
// it, and room for the rest.
bool holds(const store::Manifest& stored, const store::Manifest& wanted) {
  const auto same_unit = [](const store::StoredUnit& a, const store::StoredUnit& b) {
    return a.name == b.name && a.elements == b.elements && a.shard_elements == b.shard_elements &&
           a.parameters == b.parameters &&
           std::ranges::all_of(offload::kLastingKinds, [&](offload::StateKind kind) {
             const auto k = static_cast<std::size_t>(kind);
             return a.extents[k] == b.extents[k];
           });
  };
  return stored.dtypes.weights == wanted.dtypes.weights &&
         stored.dtypes.moments == wanted.dtypes.moments &&
         stored.dtypes.moment_count == wanted.dtypes.moment_count &&
         stored.block_elements == wanted.block_elements && stored.slots == wanted.slots &&
         std::ranges::equal(stored.units, wanted.units, same_unit);
}

// Whether each file of the volume is in one of the directories, and each has one.
bool lies_in(const io::Volume& volume, const std::vector<std::string>& directories) {
  if (volume.devices() != std::ssize(directories)) return false;
  for (int device = 0; device < volume.devices(); ++device) {
    const bool found = std::ranges::any_of(directories, [&](const std::string& directory) {
      std::error_code missing;
      return fs::equivalent(volume.device_path(device), directory, missing);
    });
    if (!found) return false;
  }
  return true;
}

// Whether the run of `folder` goes on from the store that has this file.
bool goes_on_from(const std::string& folder, const store::FileHeader& header,
                  const fs::path& file) {
  const std::optional<StorePointer> pointer = read_store_pointer(folder);
  if (!pointer || pointer->run_id != store::format_run_id(header.run_id)) return false;
  const auto& directories = pointer->ranks.at(static_cast<std::size_t>(header.rank)).directories;
  return std::ranges::any_of(directories, [&](const std::string& directory) {
    std::error_code missing;
    return fs::equivalent(fs::path(directory) / file.filename(), file, missing);
  });
}

// The copy of a run's folder names the run's store, which only that run goes on in, or deletes. Its
// folder is that which the store was made for, or lies in.
void check_owner(const OpenedShard& shard, const std::string& run_folder) {
  const store::FileHeader& header = shard.stored.header();
  const fs::path file = shard.volume->file(0).device_path(0);
  for (const std::string& folder : {header.run_folder, file.parent_path().string()}) {
    std::error_code missing;
    if (!fs::is_directory(folder, missing) || fs::equivalent(folder, run_folder, missing) ||
        !goes_on_from(folder, header, file)) {
      continue;
    }
    throw_error<ConfigError>(
        "store file {}: it is the store of run {}; {} is a copy of that folder, which can only "
        "begin from a portable checkpoint: strata export {} DIR --with-optimizer, then train with "
        "--resume-from DIR in a new --run folder",
        file.string(), folder, run_folder, folder);
  }
}

std::unique_ptr<OpenedStore> open_to_go_on(const StorePointer& pointer,
                                           const StoredRunOptions& options,
                                           comm::Communicator& comm) {
  std::vector<std::string> directories = options.directories;
  if (!options.run_folder.empty()) directories.push_back(options.run_folder);
  return std::make_unique<OpenedStore>(pointer, directories, options.engine, options.step, comm,
                                       io::VolumeAccess::exclusive, options.failure);
}

}  // namespace

StoredRun::StoredRun(const StorePointer& pointer, StoredRunOptions options,
                     comm::Communicator& comm)
    : opened_(open_to_go_on(pointer, options, comm)), comm_(comm), commit_(opened_->commit()) {
  agree(comm_, [&] {
    for (const auto& [number, shard] : opened_->kept()) check_owner(shard, options.run_folder);
  });
}

StoredRun::~StoredRun() = default;

bool StoredRun::fits(const store::Manifest& manifest, const std::vector<std::string>& directories) {
  const auto own = opened_->kept().find(comm_.rank());
  const bool here = opened_->shards() == comm_.world_size() && own != opened_->kept().end() &&
                    lies_in(*own->second.volume, directories) &&
                    holds(own->second.stored.manifest(), manifest) &&
                    manifest.data_bytes <= own->second.stored.header().data_bytes;
  const auto mine = static_cast<std::uint8_t>(here);
  std::vector<std::uint8_t> all(static_cast<std::size_t>(comm_.world_size()));
  comm_.all_gather_host(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return std::ranges::all_of(all, [](std::uint8_t fits) { return fits != 0; });
}

std::unique_ptr<io::Volume> StoredRun::take_volume() {
  in_place_ = true;
  return opened_->kept().at(comm_.rank()).stored.take_volume();
}

void StoredRun::free_dead_slots() {
  STRATA_CHECK(commit_ && !in_place_);
  opened_->forget_other_commits();
  agree(comm_, [&] {
    for (auto& [number, shard] : opened_->kept()) {
      shard.stored.punch_dead_slots(shard.commit(*opened_->choice().sequence).table);
    }
  });
}

std::vector<DeadSpace> StoredRun::dead_space() {
  STRATA_CHECK(commit_ && !in_place_);
  const std::string host = host_name();
  nlohmann::json mine = {{"host", host}, {"dead", nlohmann::json::array()}};
  for (const auto& [number, shard] : opened_->kept()) {
    const io::Volume& volume = *shard.volume;
    const std::int64_t bytes =
        shard.stored.dead_bytes(shard.commit(*opened_->choice().sequence).table);
    std::int64_t stripes = 0;
    for (int d = 0; d < volume.devices(); ++d) stripes += volume.share(d).stripes;
    for (int d = 0; d < volume.devices(); ++d) {
      const std::int64_t share = volume.share(d).stripes;
      mine["dead"].push_back({fs::absolute(volume.device_path(d)).string(),
                              bytes / stripes * share + bytes % stripes * share / stripes});
    }
  }
  std::vector<DeadSpace> all;
  for (const std::string& text : gather_texts(comm_, mine.dump())) {
    const auto rank = nlohmann::json::parse(text);
    if (rank["host"] != host) continue;
    for (const auto& dead : rank["dead"]) all.push_back({dead[0], dead[1]});
  }
  return all;
}

std::unique_ptr<StateFiller> StoredRun::filler(WorkerSet& workers) {
  STRATA_CHECK(commit_);
  if (in_place_) return std::make_unique<InPlaceFiller>(*opened_, workers);
  return std::make_unique<ReshardFiller>(*opened_, workers);
}

void StoredRun::remove() {
  STRATA_CHECK(!in_place_);
  agree(comm_, [&] {
    for (auto& [number, shard] : opened_->kept()) shard.volume->remove();
  });
}

}  // namespace strata::engine

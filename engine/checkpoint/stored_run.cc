#include "engine/checkpoint/stored_run.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>

#include "engine/checkpoint/commit_fillers.h"
#include "engine/checkpoint/opened_store.h"
#include "engine/step/agreement.h"

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

}  // namespace

StoredRun::StoredRun(const StorePointer& pointer, StoredRunOptions options,
                     comm::Communicator& comm)
    : opened_(std::make_unique<OpenedStore>(pointer, options.directories, options.engine,
                                            options.step, comm)),
      comm_(comm),
      commit_(opened_->commit()) {}

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

std::int64_t StoredRun::dead_bytes() {
  STRATA_CHECK(commit_ && !in_place_);
  struct OfRank {
    std::array<char, HOST_NAME_MAX + 1> host{};
    std::int64_t bytes = 0;
  } mine;
  ::gethostname(mine.host.data(), mine.host.size() - 1);
  for (const auto& [number, shard] : opened_->kept()) {
    mine.bytes += shard.stored.dead_bytes(shard.commit(*opened_->choice().sequence).table);
  }
  std::vector<OfRank> all(static_cast<std::size_t>(comm_.world_size()));
  comm_.all_gather_host(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  std::int64_t bytes = 0;
  for (const OfRank& rank : all) {
    if (rank.host == mine.host) bytes += rank.bytes;
  }
  return bytes;
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

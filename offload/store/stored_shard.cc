#include "offload/store/stored_shard.h"

#include <algorithm>
#include <utility>

#include "kernels/base/error.h"
#include "offload/store/shard_files.h"

namespace strata::store {

std::vector<std::string> StoredShard::find_files(const std::vector<std::string>& directories,
                                                 const std::string& run_id, int rank) {
  return find_shard_files(directories, run_id, rank);
}

StoredShard::StoredShard(const std::vector<std::string>& files, io::VolumeAccess access,
                         const io::EngineOptions& engine, Tracer* tracer) {
  ShardFiles shard = read_shard_files(files);
  header_ = std::move(shard.header);
  manifest_ = std::make_unique<Manifest>(std::move(shard.manifest));
  volume_ = io::open_volume({.paths = std::move(shard.paths),
                             .shares = header_.shares,
                             .capacity_bytes = header_.data_bytes,
                             .metadata_bytes = header_.layout().bytes,
                             .stripe_bytes = header_.stripe_bytes,
                             .engine = engine},
                            access, tracer);
}

StoredShard::StoredShard(StoredShard&&) noexcept = default;
StoredShard::~StoredShard() = default;

std::unique_ptr<io::Volume> StoredShard::take_volume() { return std::move(volume_); }

FoundCommits StoredShard::commits() const {
  const std::int64_t bytes = CommitLog::staging_bytes(*manifest_);
  Budget budget("commit tables", bytes);
  const AlignedBuffer staging(budget, "commit table", bytes);
  return CommitLog(*volume_, volume_->file(0), header_, *manifest_, staging.span()).read();
}

std::vector<StoredShard::DataRange> StoredShard::dead_ranges(const CommitTable& table) const {
  std::vector<DataRange> live;
  for (std::size_t u = 0; u < manifest_->units.size(); ++u) {
    for (const offload::StateKind kind : offload::kLastingKinds) {
      const auto& extent = manifest_->units[u].extents[static_cast<std::size_t>(kind)];
      if (extent) live.push_back({extent->slot_offsets.at(table.live_slots[u]), extent->bytes});
    }
  }
  std::sort(live.begin(), live.end(),
            [](const DataRange& a, const DataRange& b) { return a.offset_bytes < b.offset_bytes; });
  live.push_back({header_.data_bytes, 0});
  std::vector<DataRange> dead;
  std::int64_t end = 0;  // of the range before
  for (const DataRange& range : live) {
    if (range.offset_bytes > end) dead.push_back({end, range.offset_bytes - end});
    end = range.offset_bytes + range.bytes;
  }
  return dead;
}

std::int64_t StoredShard::dead_bytes(const CommitTable& table) const {
  std::int64_t bytes = 0;
  for (const DataRange& range : dead_ranges(table)) bytes += range.bytes;
  return bytes;
}

void StoredShard::punch_dead_slots(const CommitTable& table) {
  for (const DataRange& range : dead_ranges(table)) {
    volume_->discard(range.offset_bytes, range.bytes);
  }
}

}  // namespace strata::store

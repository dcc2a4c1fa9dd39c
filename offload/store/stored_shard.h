// StoredShard: the store of one rank as some run left it: its files, what they hold and its
// commits. What resuming, `strata verify` and `strata export` read stores through.
//
//   files, found by their name in any directory ──StoredShard()──▶ header and manifest checked,
//   locked ──take_volume()──▶ nothing but header() and manifest()
//
// Errors name the file. Thread contract: as Volume; commits() by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/volume.h"
#include "offload/store/block_reader.h"
#include "offload/store/commit_log.h"
#include "offload/store/file_header.h"
#include "offload/store/manifest.h"

namespace strata::store {

class StoredShard {
 public:
  // find_shard_files() of shard_files.h.
  static std::vector<std::string> find_files(const std::vector<std::string>& directories,
                                             const std::string& run_id, int rank);

  // `files`: in any order. Throws ConfigError when a living run has them locked; what
  // read_shard_files() and io::open_volume() throw.
  StoredShard(const std::vector<std::string>& files, io::VolumeAccess access,
              const io::EngineOptions& engine, Tracer* tracer);
  StoredShard(StoredShard&&) noexcept;
  ~StoredShard();

  const FileHeader& header() const { return header_; }
  const Manifest& manifest() const { return *manifest_; }
  io::Volume& volume() const { return *volume_; }
  // The volume, for a run that goes on in this store.
  std::unique_ptr<io::Volume> take_volume();

  FoundCommits commits() const;
  // Valid as long as the volume.
  BlockReader blocks() const { return {*volume_, *manifest_, header_.rank}; }

  // What `table` does not need of the data: other slots, gradients, activation records.
  std::int64_t dead_bytes(const CommitTable& table) const;
  // Gives it back to the file system, where that can.
  void punch_dead_slots(const CommitTable& table);

 private:
  struct DataRange {
    std::int64_t offset_bytes;
    std::int64_t bytes;
  };
  std::vector<DataRange> dead_ranges(const CommitTable& table) const;

  FileHeader header_;
  std::unique_ptr<Manifest> manifest_;
  std::unique_ptr<io::Volume> volume_;
};

}  // namespace strata::store

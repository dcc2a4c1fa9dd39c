// StoredShard: the store of one rank as some run left it: its files, what they hold and its
// commits. What resuming, `strata inspect`, `strata verify` and
// `strata export` read stores through.
//
//   files found (by run id and rank, in any directory) ──open()──▶ locked, header and manifest
//   checked
//
// Errors name the file.
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
  // The files of rank `rank` of store `run_id` in `directories`; empty unless all are there. Looks
  // at names only.
  static std::vector<std::string> find_files(const std::vector<std::string>& directories,
                                             const std::string& run_id, int rank);

  // `files`: in any order. Throws ConfigError when a living run has them locked, or one is missing;
  // FormatError (VersionError) for damage, files of different stores, another version of the
  // format; IoError.
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

  // Gives the space of all slots that `table` does not hold live back to the file system.
  void punch_dead_slots(const CommitTable& table);

 private:
  FileHeader header_;
  std::unique_ptr<Manifest> manifest_;
  std::unique_ptr<io::Volume> volume_;
};

}  // namespace strata::store

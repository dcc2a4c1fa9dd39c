// CommitLog: the superblocks and commit tables of one rank's store, written so that a crash at any
// moment leaves the newest one that was acknowledged, or the one that was being written.
// docs/store-format.md has the order of writes and what each crash leaves.
//
//   write(): table into copy n % 2 ▸ flush all directories ▸ superblock n ▸ flush its directory
//
// An error in write() leaves what was acknowledged before as it was, and the next write() tries the
// same copy again.
//
// Thread contract: one thread at a time. write() allocates nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/storage.h"
#include "kernels/base/aligned_buffer.h"
#include "offload/store/file_header.h"
#include "offload/store/manifest.h"
#include "offload/store/superblock.h"

namespace strata::store {

struct FoundCommit {
  Superblock superblock;
  CommitTable table;  // empty for a started mark
};

struct FoundCommits {
  std::vector<FoundCommit> valid;         // newest first
  std::vector<Superblock> without_table;  // intact ones whose tables are overwritten or damaged
  std::vector<std::string> problems;      // of copies that are neither valid nor erased
};

class CommitLog {
 public:
  // `data`: the striped data, whose flush() covers every directory. `metadata`: the file of
  // directory 0, as a whole. `staging`: staging_bytes() of memory that is the log's own.
  CommitLog(io::Storage& data, io::Storage& metadata, const FileHeader& header,
            const Manifest& manifest, AlignedSpan staging);

  static std::int64_t staging_bytes(const Manifest& manifest);

  // Trusts nothing. Throws IoError when the drive fails; a copy that is damaged, or of another
  // store, is a problem that names it, not an error.
  FoundCommits read();

  // Goes on after `kept`, one that read() found, or from an empty log: durably erases every
  // superblock that is not it. Throws IoError.
  void continue_after(const Superblock* kept);

  // The next superblock, durably, and with it all data whose writes are complete. `table`: of a
  // commit and a clean mark; a started mark has none. Throws IoError.
  void write(SuperblockKind kind, std::int64_t step, const Snapshot& snapshot,
             const CommitTable* table);

 private:
  void read_copy(int copy, FoundCommits& found);
  AlignedSpan superblock_memory() const { return staging_.sub(0, kSuperblockBytes); }
  AlignedSpan table_memory() const {
    return staging_.sub(kSuperblockBytes, header_.commit_table_bytes);
  }

  io::Storage& data_;
  io::Storage& metadata_;
  const FileHeader& header_;
  const Manifest& manifest_;
  const MetadataLayout layout_;
  AlignedSpan staging_;
  std::int64_t sequence_ = 0;  // of the last one written
};

}  // namespace strata::store

// ChecksumTable: one checksum for each block of each slot of each extent that may live on NVMe, in
// memory, apart from the data.
//
// Block i of an extent is its bytes [i * block bytes, (i + 1) * block bytes), cut at the end of the
// transfer that wrote it; a transfer starts at a block. The checksum is seeded with extent and
// block, so that intact bytes in the wrong place do not pass; it does not depend on the slot.
//
// An entry:   unwritten (0) ──record()──▶ written ──record()──▶ written
//                 ▲────────────forget()─────┘
//
// Thread contract: calls for ranges that do not overlap may run at once; work is done by the
// workers. Allocates nothing after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/worker_set.h"
#include "offload/extent_map.h"

namespace strata::offload {

// Bytes of an extent that a transfer moves; `first_byte` starts a block.
struct ExtentRange {
  int extent = 0;
  std::int64_t first_byte = 0;
  AlignedSpan memory;
  int slot = 0;
};

class ChecksumTable {
 public:
  // `memory`: Plan::checksum_bytes(), zero-filled. It and the extents must outlive the table.
  ChecksumTable(const ExtentMap& extents, AlignedSpan memory, WorkerSet& workers);

  // Of bytes about to be written.
  void record(const ExtentRange& range);
  // All of a slot, which nobody is transferring.
  void forget(int extent, int slot);

  // Those of a slot's blocks, for commit tables, while nobody is transferring it.
  std::span<std::uint64_t> of(int extent, int slot) const;

  struct Mismatch {
    int extent;
    int slot;
    std::int64_t first_byte;
    std::int64_t bytes;
  };
  // The first block that is not what was recorded. A block that never was is a programmer error.
  std::optional<Mismatch> find_mismatch(std::span<const ExtentRange> ranges) const;

 private:
  struct Block {
    std::uint64_t* entry;
    std::int64_t first_byte;  // of the extent
    std::int64_t bytes;
    std::uint64_t checksum;
  };
  std::int64_t blocks_of(const ExtentRange& range) const;
  Block compute(const ExtentRange& range, std::int64_t index) const;

  const ExtentMap& extents_;
  std::uint64_t* entries_;
  WorkerSet& workers_;
};

}  // namespace strata::offload

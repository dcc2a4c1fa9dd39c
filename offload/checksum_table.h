// ChecksumTable: one checksum for each block of each extent that may live on NVMe, in memory, apart
// from the data.
//
// Extents are the states of each unit, then the activation records: whatever tier the plan gave
// them, so that the size of the table depends on the sizes of the model alone. Block i of an extent
// is its bytes [i * block bytes, (i + 1) * block bytes), cut at the end of the transfer that wrote
// it; a transfer starts at a block. The checksum is seeded with extent and block, so that intact
// bytes in the wrong place do not pass.
//
// An entry:   unwritten (0) ──record()──▶ written ──record()──▶ written
//
// Thread contract: calls for ranges that do not overlap may run at once; work is done by the
// workers. Allocates nothing after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/worker_set.h"
#include "offload/plan.h"

namespace strata::offload {

// Bytes of an extent that a transfer moves; `first_byte` starts a block.
struct ExtentRange {
  int extent = 0;
  std::int64_t first_byte = 0;
  AlignedSpan memory;
};

class ChecksumTable {
 public:
  // `memory`: bytes_needed(), zero-filled; must outlive the table.
  ChecksumTable(const Plan& plan, AlignedSpan memory, WorkerSet& workers);

  // 0 when nothing of the plan can lie on NVMe.
  static std::int64_t bytes_needed(const Plan& plan);
  static int extent_of(int unit, StateKind kind) {
    return unit * kStateKinds + static_cast<int>(kind);
  }
  static int extent_of_record(const Plan& plan, int record) {
    return static_cast<int>(plan.units.size()) * kStateKinds + record;
  }

  // Of bytes about to be written.
  void record(const ExtentRange& range);

  struct Mismatch {
    int extent;
    std::int64_t first_byte;
    std::int64_t bytes;
    std::int64_t transfer_bytes;  // of the range that it was found in
  };
  // The first block that is not what was recorded. A block that never was is a programmer error.
  std::optional<Mismatch> find_mismatch(std::span<const ExtentRange> ranges) const;

 private:
  struct Extent {
    std::int64_t first_entry = 0;
    std::int64_t block_bytes = 0;
    std::int64_t bytes = 0;
  };
  struct Block {
    std::uint64_t* entry;
    std::int64_t first_byte;  // of the extent
    std::int64_t bytes;
    std::uint64_t checksum;
  };
  static std::vector<Extent> lay_out(const Plan& plan);
  std::int64_t blocks_of(const ExtentRange& range) const;
  Block compute(const ExtentRange& range, std::int64_t index) const;

  std::vector<Extent> extents_;
  std::uint64_t* entries_;
  WorkerSet& workers_;
};

}  // namespace strata::offload

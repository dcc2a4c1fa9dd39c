// The copy of one rank's commit into the files of a portable checkpoint. What is read is verified,
// and what is written leaves a checksum for each range, in an order that follows from layout and
// rank alone.
//
// With the weights in bf16 what is exported is the working weight (nearest, ties away from zero),
// whichever precision the run has.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/portable/files.h"
#include "engine/portable/layout.h"
#include "kernels/base/aligned_buffer.h"
#include "offload/store/block_reader.h"

namespace strata::engine {

// What one rank's commit is read from; must outlive the copy, and its slots stay as they are.
struct CommitSource {
  const store::BlockReader& blocks;
  const store::CommitTable& table;
  int rank = 0;
};

// Memory for copy_shard().
std::int64_t portable_copy_bytes(const store::Manifest& manifest);

// Appends to `checksums`. Throws IoError. Once `stop` is set it returns at the next block.
void copy_shard(const PortableLayout& layout, const CommitSource& source, PortableFiles& files,
                AlignedSpan memory, const std::atomic<bool>& stop,
                std::vector<std::uint64_t>& checksums);

// The ranges that a rank writes: calls visit(tensor, first, last), in the order of the checksums.
template <typename Visit>
void for_each_range(const PortableLayout& layout, int rank, Visit visit);

template <typename Visit>
void for_each_range(const PortableLayout& layout, int rank, Visit visit) {
  const PortableParameters& parameters = layout.parameters();
  for (int unit = 0; unit < parameters.units(); ++unit) {
    for (std::int64_t block = 0; block < parameters.blocks_of_shard(unit); ++block) {
      const std::vector<BlockRange> ranges = parameters.ranges(rank, unit, block);
      for (const PortableState state : kPortableStates) {
        for (const BlockRange& range : ranges) {
          const int tensor = layout.tensor(range.parameter, state);
          if (tensor == PortableLayout::kNone) continue;
          const auto [first, last] = elements_of(range, state);
          visit(tensor, first, last);
        }
      }
    }
  }
}

}  // namespace strata::engine

// BlockReader: the blocks of a commit, each verified as it is read, from the data of a store that
// lies still or of one that a run goes on writing to (its other slots).
//
// Thread contract: const calls may run at once, into memory that does not overlap.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/storage.h"
#include "kernels/base/aligned_buffer.h"
#include "offload/store/manifest.h"
#include "offload/store/superblock.h"
#include "offload/tier.h"

namespace strata::store {

// Elements [first, last) of a parameter, counted in the whole tensor, row-major.
struct ParameterRange {
  std::string parameter;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

class BlockReader {
 public:
  // `rank`: whose data it is. All must outlive the reader.
  BlockReader(io::Storage& data, const Manifest& manifest, int rank);

  std::int64_t blocks(int unit, offload::StateKind kind) const;  // 0: no such state
  std::int64_t block_bytes(offload::StateKind kind) const;       // of a whole block

  // Block `block` of a state, of the slot that the commit holds live, into the start of
  // `destination` (whole pages, block_bytes() of it at least). Returns its bytes. Throws IoError:
  // of one that is not what was written it names unit, state, parameters with their ranges, file
  // and offset.
  std::int64_t read(const CommitTable& table, int unit, offload::StateKind kind, std::int64_t block,
                    AlignedSpan destination) const;

  // The parameters that a block holds elements of; none of padding.
  std::vector<ParameterRange> parameters_of(int unit, std::int64_t block) const;

 private:
  io::Storage& data_;
  const Manifest& manifest_;
  int rank_;
};

}  // namespace strata::store

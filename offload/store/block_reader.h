// BlockReader: the blocks of a commit, each verified as it is read, from the data of a store that
// lies still or of one that a run goes on writing to (its other slots).
//
// A block belongs to one kind of state of one unit's shard and is counted from the shard's start.
// Gradients belong to no commit: they have no blocks here.
//
// Thread contract: const calls may run at once, into memory that does not overlap.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "io/storage.h"
#include "kernels/base/aligned_buffer.h"
#include "offload/plan.h"
#include "offload/store/manifest.h"
#include "offload/store/superblock.h"

namespace strata::store {

// Elements [first, last) of a parameter, counted in the whole tensor, row-major.
struct ParameterRange {
  std::string parameter;
  std::int64_t first = 0;
  std::int64_t last = 0;
  friend bool operator==(const ParameterRange&, const ParameterRange&) = default;
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

  // read() in two halves, for several blocks in flight: start() returns the bytes that will be
  // there once `group` has been waited for.
  std::int64_t start(const CommitTable& table, int unit, offload::StateKind kind,
                     std::int64_t block, AlignedSpan destination, io::IoGroup& group) const;
  // Whether `bytes` are what the commit holds. Computes only.
  bool is_intact(const CommitTable& table, int unit, offload::StateKind kind, std::int64_t block,
                 AlignedSpan bytes) const;

  // The parameters that consecutive blocks hold elements of; none of padding.
  std::vector<ParameterRange> parameters_of(int unit, std::int64_t first_block,
                                            std::int64_t blocks = 1) const;
  // The same for errors: "moment1 of h.3.mlp.c_fc.weight [262144, 524288), h.3.ln_2.bias [0, 768)"
  std::string describe(int unit, offload::StateKind kind, std::int64_t first_block,
                       std::int64_t blocks = 1) const;
  // "FILE at offset 4096"
  std::string locate(const CommitTable& table, int unit, offload::StateKind kind,
                     std::int64_t block) const;

 private:
  const Extent* committed_extent(int unit, offload::StateKind kind) const;
  std::int64_t bytes_of(int unit, offload::StateKind kind, std::int64_t block) const;
  std::int64_t offset_of(const CommitTable& table, int unit, offload::StateKind kind,
                         std::int64_t block) const;

  io::Storage& data_;
  const Manifest& manifest_;
  int rank_;
  // Of each unit and kind: where in a commit table its blocks' checksums begin.
  std::vector<std::array<std::int64_t, offload::kStateKinds>> first_checksum_;
};

}  // namespace strata::store

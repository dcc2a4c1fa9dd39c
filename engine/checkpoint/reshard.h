// Re-sharding: one kind of state of a unit, from the blocks of one number of ranks to those of
// another.
//
//   unit             | 0 …                                       elements |
//   old shards       | 0           | 1           | 2           | 3  padding |
//   new shards       | 0                | 1                | 2      padding |
//
// Every boundary is a multiple of 4,096 elements but the unit's end, so that groups of int8 moments
// that share a scale are never cut. Pure functions on bytes: no files, no ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "offload/tier.h"

namespace strata::engine {

// How the ranks of a run hold a unit.
struct Sharding {
  std::int64_t elements = 0;        // of the unsharded unit
  std::int64_t shard_elements = 0;  // of each rank, padded
  std::int64_t block_elements = 0;

  std::int64_t blocks() const;                         // of a shard
  std::int64_t elements_in(std::int64_t block) const;  // of a shard, padding included
};

// Elements [first, last) of an unsharded unit; empty where first >= last.
struct UnitRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool empty() const { return first >= last; }
};
UnitRange intersection(UnitRange a, UnitRange b);

// What a rank's shard, or a block of it, holds besides padding.
UnitRange shard_range(const Sharding& sharding, int rank);
UnitRange block_range(const Sharding& sharding, int rank, std::int64_t block);

struct SourceBlock {
  int shard = 0;  // the rank that held it
  std::int64_t block = 0;
  friend bool operator==(const SourceBlock&, const SourceBlock&) = default;
};

// All blocks of `sharding` that hold elements of `range`, in order of elements.
std::vector<SourceBlock> blocks_with(const Sharding& sharding, UnitRange range);

// Composes one rank's shard of `to`, block by block, from blocks of `from`.
//
//   add() … add(): blocks_with(from, its range), in their order ──▶ finish(): the rest is padding,
//   or all,
//                                                                  of a state that was not there
class ShardComposer {
 public:
  // Given every block of the shard, in order. Padding is zeros, whatever it was before.
  using Put = std::function<void(std::int64_t block, std::span<const std::byte> bytes)>;

  // `memory`: room for a block of `to`.
  ShardComposer(offload::StateKind kind, const offload::StateDtypes& dtypes, const Sharding& from,
                const Sharding& to, int rank, std::span<std::byte> memory, Put put);

  void add(SourceBlock block, std::span<const std::byte> bytes);
  // After all of them, or none.
  void finish();

 private:
  std::int64_t bytes_of(std::int64_t elements) const;
  void put_block();
  void copy(const std::byte* source, std::int64_t source_elements, std::int64_t source_first,
            std::int64_t destination_first, std::int64_t count);

  offload::StateKind kind_;
  offload::StateDtypes dtypes_;
  Sharding from_;
  Sharding to_;
  int rank_;
  std::span<std::byte> memory_;
  Put put_;
  std::int64_t block_ = 0;  // that is being composed
  std::int64_t next_;       // the element, of the unsharded unit, that comes next
};

}  // namespace strata::engine

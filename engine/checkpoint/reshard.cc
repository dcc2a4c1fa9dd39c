#include "engine/checkpoint/reshard.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"

namespace strata::engine {

using offload::StateDtypes;
using offload::StateKind;

std::int64_t Sharding::blocks() const { return ceil_div(shard_elements, block_elements); }

std::int64_t Sharding::elements_in(std::int64_t block) const {
  return std::min(block_elements, shard_elements - block * block_elements);
}

UnitRange intersection(UnitRange a, UnitRange b) {
  return {std::max(a.first, b.first), std::min(a.last, b.last)};
}

UnitRange shard_range(const Sharding& sharding, int rank) {
  const std::int64_t first = rank * sharding.shard_elements;
  return intersection({first, first + sharding.shard_elements}, {0, sharding.elements});
}

UnitRange block_range(const Sharding& sharding, int rank, std::int64_t block) {
  const std::int64_t first = rank * sharding.shard_elements + block * sharding.block_elements;
  return intersection({first, first + sharding.elements_in(block)}, {0, sharding.elements});
}

std::vector<SourceBlock> blocks_with(const Sharding& sharding, UnitRange range) {
  std::vector<SourceBlock> blocks;
  if (range.empty()) return blocks;
  for (auto shard = static_cast<int>(range.first / sharding.shard_elements);
       !intersection(shard_range(sharding, shard), range).empty(); ++shard) {
    for (std::int64_t block = 0; block < sharding.blocks(); ++block) {
      if (intersection(block_range(sharding, shard, block), range).empty()) continue;
      blocks.push_back({shard, block});
    }
  }
  return blocks;
}

ShardComposer::ShardComposer(StateKind kind, const StateDtypes& dtypes, const Sharding& from,
                             const Sharding& to, int rank, std::span<std::byte> memory, Put put)
    : kind_(kind),
      dtypes_(dtypes),
      from_(from),
      to_(to),
      rank_(rank),
      memory_(memory),
      put_(std::move(put)),
      next_(shard_range(to, rank).first) {
  STRATA_CHECK(std::ssize(memory) >= bytes_of(to.elements_in(0)));
  std::ranges::fill(memory_, std::byte{0});
}

std::int64_t ShardComposer::bytes_of(std::int64_t elements) const {
  return offload::state_bytes(kind_, dtypes_, elements, elements);
}

void ShardComposer::put_block() {
  put_(block_, memory_.first(static_cast<std::size_t>(bytes_of(to_.elements_in(block_)))));
  ++block_;
  std::ranges::fill(memory_, std::byte{0});
}

void ShardComposer::add(SourceBlock block, std::span<const std::byte> bytes) {
  const std::int64_t elements = from_.elements_in(block.block);
  STRATA_CHECK(std::ssize(bytes) == bytes_of(elements), "{} bytes of {} elements", bytes.size(),
               elements);
  const UnitRange held = block_range(from_, block.shard, block.block);
  const UnitRange wanted = intersection(held, shard_range(to_, rank_));
  STRATA_CHECK(wanted.first == next_, "element {} after {}", wanted.first, next_);
  while (next_ < wanted.last) {
    const UnitRange composed = block_range(to_, rank_, block_);
    if (next_ == composed.last) {
      put_block();
      continue;
    }
    const std::int64_t count = std::min(wanted.last, composed.last) - next_;
    copy(bytes.data(), elements, next_ - held.first, next_ - composed.first, count);
    next_ += count;
  }
}

void ShardComposer::finish() {
  const UnitRange shard = shard_range(to_, rank_);
  STRATA_CHECK(next_ == shard.first || next_ >= shard.last, "element {} of {}", next_, shard.last);
  while (block_ < to_.blocks()) put_block();
}

void ShardComposer::copy(const std::byte* source, std::int64_t source_elements,
                         std::int64_t source_first, std::int64_t destination_first,
                         std::int64_t count) {
  const auto move = [&](std::int64_t to, std::int64_t from, std::int64_t bytes) {
    std::memcpy(memory_.data() + to, source + from, static_cast<std::size_t>(bytes));
  };
  if (!is_moment(kind_) || dtypes_.moments != MomentFormat::int8) {
    const std::int64_t bytes = offload::element_bytes(kind_, dtypes_);
    move(destination_first * bytes, source_first * bytes, count * bytes);
    return;
  }
  const std::int64_t elements = to_.elements_in(block_);
  const auto to = offload::int8_offsets(destination_first, elements, elements);
  const auto from = offload::int8_offsets(source_first, source_elements, source_elements);
  move(to.code_bytes, from.code_bytes, count);
  move(to.scale_bytes, from.scale_bytes,
       ceil_div(count, kScaleElements) * strata::bytes_of(Dtype::f32));
}

}  // namespace strata::engine

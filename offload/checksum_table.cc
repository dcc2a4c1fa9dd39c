#include "offload/checksum_table.h"

#include <algorithm>
#include <atomic>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "offload/store/checksum.h"

namespace strata::offload {

namespace {

constexpr std::int64_t kNone = INT64_MAX;

}  // namespace

ChecksumTable::ChecksumTable(const ExtentMap& extents, AlignedSpan memory, WorkerSet& workers)
    : extents_(extents), entries_(memory.as<std::uint64_t>()), workers_(workers) {
  static_assert(sizeof(*entries_) == kChecksumBytes);
}

std::int64_t ChecksumTable::blocks_of(const ExtentRange& range) const {
  const Extent& extent = extents_[range.extent];
  return ceil_div(range.memory.bytes(), extent.block_bytes);
}

// Block `index` of a range.
ChecksumTable::Block ChecksumTable::compute(const ExtentRange& range, std::int64_t index) const {
  const Extent& extent = extents_[range.extent];
  STRATA_CHECK(range.first_byte % extent.block_bytes == 0 &&
                   range.first_byte + range.memory.bytes() <= extent.bytes,
               "{} bytes at {} of an extent of {} in blocks of {}", range.memory.bytes(),
               range.first_byte, extent.bytes, extent.block_bytes);
  const std::int64_t offset = index * extent.block_bytes;
  const std::int64_t bytes = std::min(extent.block_bytes, range.memory.bytes() - offset);
  const std::int64_t block = range.first_byte / extent.block_bytes + index;
  const std::uint64_t seed =
      static_cast<std::uint64_t>(range.extent) << 40 | static_cast<std::uint64_t>(block);
  const std::uint64_t sum = store::checksum(range.memory.data() + offset, bytes, seed);
  return {&of(range.extent, range.slot)[static_cast<std::size_t>(block)], range.first_byte + offset,
          bytes, std::max<std::uint64_t>(sum, 1)};  // 0 is: unwritten
}

void ChecksumTable::record(const ExtentRange& range) {
  workers_.parallel_for(blocks_of(range), [&](std::int64_t index, int) {
    const Block block = compute(range, index);
    *block.entry = block.checksum;
  });
}

void ChecksumTable::forget(int extent, int slot) {
  std::ranges::fill(of(extent, slot), std::uint64_t{0});
}

std::span<std::uint64_t> ChecksumTable::of(int extent, int slot) const {
  const Extent& place = extents_[extent];
  return {entries_ + place.first_block + slot * place.blocks(),
          static_cast<std::size_t>(place.blocks())};
}

std::optional<ChecksumTable::Mismatch> ChecksumTable::find_mismatch(
    std::span<const ExtentRange> ranges) const {
  // The range and the block in it of a tile.
  const auto locate = [&](std::int64_t tile) {
    for (const ExtentRange& range : ranges) {
      const std::int64_t blocks = blocks_of(range);
      if (tile < blocks) return std::pair(&range, tile);
      tile -= blocks;
    }
    STRATA_CHECK(false);
  };
  std::int64_t tiles = 0;
  for (const ExtentRange& range : ranges) tiles += blocks_of(range);
  std::atomic<std::int64_t> first{kNone};
  workers_.parallel_for(tiles, [&](std::int64_t tile, int) {
    const auto [range, index] = locate(tile);
    const Block block = compute(*range, index);
    STRATA_CHECK(*block.entry != 0, "extent {}, byte {} was never written", range->extent,
                 block.first_byte);
    if (*block.entry == block.checksum) return;
    std::int64_t seen = first.load(std::memory_order_relaxed);
    while (tile < seen && !first.compare_exchange_weak(seen, tile)) {
    }
  });
  if (first == kNone) return std::nullopt;
  const auto [range, index] = locate(first);
  const Block block = compute(*range, index);
  return Mismatch{range->extent, range->slot, block.first_byte, block.bytes};
}

}  // namespace strata::offload

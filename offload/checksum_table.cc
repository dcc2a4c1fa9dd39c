#include "offload/checksum_table.h"

#include <algorithm>
#include <atomic>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "offload/store/checksum.h"

namespace strata::offload {

namespace {

constexpr std::int64_t kEntryBytes = sizeof(std::uint64_t);
constexpr std::int64_t kRecordElementBytes = 4;
constexpr std::int64_t kNone = INT64_MAX;

}  // namespace

std::vector<ChecksumTable::Extent> ChecksumTable::lay_out(const Plan& plan) {
  std::vector<Extent> extents;
  std::int64_t entries = 0;
  const auto add = [&](std::int64_t bytes, std::int64_t block_bytes) {
    extents.push_back({entries, block_bytes, bytes});
    if (bytes > 0) entries += ceil_div(bytes, block_bytes);
  };
  for (const UnitPlan& unit : plan.units) {
    for (int k = 0; k < kStateKinds; ++k) {
      const auto kind = static_cast<StateKind>(k);
      add(plan.shard_bytes(unit, kind), plan.block_bytes(kind));
    }
  }
  for (const std::int64_t bytes : plan.record_bytes) {
    add(round_up(bytes, kPageBytes), plan.block_elements * kRecordElementBytes);
  }
  extents.push_back({entries, 0, 0});  // the end
  return extents;
}

std::int64_t ChecksumTable::bytes_needed(const Plan& plan) {
  if (!plan.stages_state() && plan.activations != Tier::nvme) return 0;
  return lay_out(plan).back().first_entry * kEntryBytes;
}

ChecksumTable::ChecksumTable(const Plan& plan, AlignedSpan memory, WorkerSet& workers)
    : extents_(lay_out(plan)), entries_(memory.as<std::uint64_t>()), workers_(workers) {
  STRATA_CHECK(memory.bytes() >= bytes_needed(plan));
}

std::int64_t ChecksumTable::blocks_of(const ExtentRange& range) const {
  const Extent& extent = extents_[static_cast<std::size_t>(range.extent)];
  return ceil_div(range.memory.bytes(), extent.block_bytes);
}

// Block `index` of a range.
ChecksumTable::Block ChecksumTable::compute(const ExtentRange& range, std::int64_t index) const {
  const Extent& extent = extents_[static_cast<std::size_t>(range.extent)];
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
  return {entries_ + extent.first_entry + block, range.first_byte + offset, bytes,
          std::max<std::uint64_t>(sum, 1)};  // 0 is: unwritten
}

void ChecksumTable::record(const ExtentRange& range) {
  workers_.parallel_for(blocks_of(range), [&](std::int64_t index, int) {
    const Block block = compute(range, index);
    *block.entry = block.checksum;
  });
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
  return Mismatch{range->extent, block.first_byte, block.bytes, range->memory.bytes()};
}

}  // namespace strata::offload

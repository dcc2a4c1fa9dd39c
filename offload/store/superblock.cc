#include "offload/store/superblock.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "offload/store/checksum.h"
#include "offload/store/field.h"

namespace strata::store {

namespace {

constexpr std::string_view kSuperblockMagic = "STRATASB";
constexpr std::size_t kRunIdOffset = 16;
constexpr Field<std::int32_t> kKind{8};
constexpr Field<std::int32_t> kRank{32};
constexpr Field<std::int32_t> kWorldSize{36};
constexpr Field<std::int64_t> kSequence{40};
constexpr Field<std::int64_t> kStep{48};
constexpr Field<std::int64_t> kTableBytes{56};
constexpr Field<std::uint64_t> kTableChecksum{64};
constexpr Field<std::int64_t> kDataPosition{72};
constexpr Field<std::int64_t> kScheduleStep{80};
constexpr Field<std::int64_t> kOptimizerStep{88};
constexpr Field<std::int64_t> kSkippedInARow{96};
constexpr std::size_t kRandomStateOffset = 104;
// All of it is in the first sector, which drives write whole or not at all; the rest is zeros.
constexpr std::int64_t kSectorBytes = 512;
constexpr Field<std::uint64_t> kChecksum{kSectorBytes - 8};

constexpr std::string_view kTableMagic = "STRATATB";
constexpr Field<std::int64_t> kTableSequence{8};
constexpr Field<std::int64_t> kTableUnits{16};
constexpr Field<std::int64_t> kTableBlocks{24};
constexpr std::int64_t kLiveBitsOffset = 32;

// Copies are seeded with their place.
constexpr std::uint64_t kSuperblockSeed = 0x73757065;
constexpr std::uint64_t kTableSeed = 0x7461626C;
constexpr std::int64_t kCountMax = std::int64_t{1} << 60;

std::uint64_t superblock_checksum(std::span<const std::byte> bytes, int copy) {
  return checksum(bytes.data(), kSectorBytes - 8,
                  kSuperblockSeed + static_cast<std::uint64_t>(copy));
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

void check_magic(std::span<const std::byte> bytes, std::string_view magic, const char* name) {
  if (std::memcmp(bytes.data(), magic.data(), magic.size()) != 0) {
    throw_error<FormatError>("the {} does not begin as one", name);
  }
}

std::int64_t units_of(const Manifest& manifest) {
  return static_cast<std::int64_t>(manifest.units.size());
}

std::int64_t checksums_offset(const Manifest& manifest) {
  return kLiveBitsOffset + round_up(ceil_div(units_of(manifest), 8), 8);
}

// Of its state; a frozen unit has one in any store.
int slots_of(const StoredUnit& unit) {
  int slots = 2;
  for (const offload::StateKind kind : offload::kLastingKinds) {
    const std::optional<Extent>& extent = unit.extents[static_cast<std::size_t>(kind)];
    if (extent) slots = std::min(slots, static_cast<int>(extent->slot_offsets.size()));
  }
  return slots;
}

Field<std::uint64_t> checksum_field(const Manifest& manifest, std::size_t block) {
  return {static_cast<std::size_t>(checksums_offset(manifest)) + block * 8};
}

}  // namespace

const char* name_of(SuperblockKind kind) {
  switch (kind) {
    case SuperblockKind::commit:
      return "commit";
    case SuperblockKind::clean_mark:
      return "clean mark";
    case SuperblockKind::started:
      return "started mark";
  }
  return "";
}

void encode(const Superblock& superblock, std::span<std::byte> bytes) {
  STRATA_CHECK(std::ssize(bytes) == kSuperblockBytes);
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  std::memcpy(bytes.data(), kSuperblockMagic.data(), kSuperblockMagic.size());
  std::memcpy(bytes.data() + kRunIdOffset, superblock.run_id.data(), superblock.run_id.size());
  kKind.put(bytes, static_cast<std::int32_t>(superblock.kind));
  kRank.put(bytes, superblock.rank);
  kWorldSize.put(bytes, superblock.world_size);
  kSequence.put(bytes, superblock.sequence);
  kStep.put(bytes, superblock.step);
  kTableBytes.put(bytes, superblock.table_bytes);
  kTableChecksum.put(bytes, superblock.table_checksum);
  const Snapshot& snapshot = superblock.snapshot;
  kDataPosition.put(bytes, snapshot.data_position);
  kScheduleStep.put(bytes, snapshot.schedule_step);
  kOptimizerStep.put(bytes, snapshot.optimizer_step);
  kSkippedInARow.put(bytes, snapshot.skipped_in_a_row);
  std::memcpy(bytes.data() + kRandomStateOffset, snapshot.random_state.data(),
              sizeof snapshot.random_state);
  kChecksum.put(bytes, superblock_checksum(bytes, superblock.copy()));
}

std::optional<Superblock> decode_superblock(std::span<const std::byte> bytes, int copy) {
  if (static_cast<std::int64_t>(bytes.size()) < kSuperblockBytes) {
    throw_error<FormatError>("{} bytes are too few for a superblock", bytes.size());
  }
  bytes = bytes.first(kSuperblockBytes);
  if (is_zero(bytes)) return std::nullopt;
  check_magic(bytes, kSuperblockMagic, "superblock");
  if (kChecksum.get(bytes) != superblock_checksum(bytes, copy) ||
      !is_zero(bytes.subspan(kSectorBytes))) {
    throw FormatError("the superblock is damaged");
  }
  Superblock superblock;
  const std::int32_t kind = kKind.get(bytes);
  check_range("the superblock's kind", kind, 1, 3);
  superblock.kind = static_cast<SuperblockKind>(kind);
  std::memcpy(superblock.run_id.data(), bytes.data() + kRunIdOffset, superblock.run_id.size());
  superblock.world_size = kWorldSize.get(bytes);
  check_range("the world size", superblock.world_size, 1, INT32_MAX);
  superblock.rank = kRank.get(bytes);
  check_range("the rank", superblock.rank, 0, superblock.world_size - 1);
  superblock.sequence = kSequence.get(bytes);
  check_range("the sequence number", superblock.sequence, 1, kCountMax);
  check_range("the copy of this sequence number", superblock.copy(), copy, copy);
  superblock.step = kStep.get(bytes);
  check_range("the step", superblock.step, 0, kCountMax);
  superblock.table_bytes = kTableBytes.get(bytes);
  const bool has_table = superblock.kind != SuperblockKind::started;
  check_range("the commit table's length", superblock.table_bytes, has_table ? kLiveBitsOffset : 0,
              has_table ? kCountMax : 0);
  superblock.table_checksum = kTableChecksum.get(bytes);
  Snapshot& snapshot = superblock.snapshot;
  snapshot.data_position = kDataPosition.get(bytes);
  check_range("the data position", snapshot.data_position, 0, kCountMax);
  snapshot.schedule_step = kScheduleStep.get(bytes);
  check_range("the schedule's step", snapshot.schedule_step, 0, kCountMax);
  snapshot.optimizer_step = kOptimizerStep.get(bytes);
  check_range("the optimizer's step", snapshot.optimizer_step, 0, kCountMax);
  snapshot.skipped_in_a_row = kSkippedInARow.get(bytes);
  check_range("the skipped steps", snapshot.skipped_in_a_row, 0, kCountMax);
  std::memcpy(snapshot.random_state.data(), bytes.data() + kRandomStateOffset,
              sizeof snapshot.random_state);
  return superblock;
}

std::int64_t commit_table_bytes(const Manifest& manifest) {
  return round_up(checksums_offset(manifest) + manifest.committed_blocks() * 8, kPageBytes);
}

void encode(const CommitTable& table, std::int64_t sequence, const Manifest& manifest,
            std::span<std::byte> bytes) {
  STRATA_CHECK(std::ssize(bytes) == commit_table_bytes(manifest));
  STRATA_CHECK(table.live_slots.size() == manifest.units.size() &&
               std::ssize(table.checksums) == manifest.committed_blocks());
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  std::memcpy(bytes.data(), kTableMagic.data(), kTableMagic.size());
  kTableSequence.put(bytes, sequence);
  kTableUnits.put(bytes, units_of(manifest));
  kTableBlocks.put(bytes, manifest.committed_blocks());
  for (std::size_t u = 0; u < table.live_slots.size(); ++u) {
    STRATA_CHECK(table.live_slots[u] < slots_of(manifest.units[u]));
    bytes[kLiveBitsOffset + u / 8] |= static_cast<std::byte>(table.live_slots[u] << u % 8);
  }
  for (std::size_t b = 0; b < table.checksums.size(); ++b) {
    checksum_field(manifest, b).put(bytes, table.checksums[b]);
  }
}

CommitTable decode_commit_table(std::span<const std::byte> bytes, const Superblock& superblock,
                                const Manifest& manifest) {
  const std::int64_t length = commit_table_bytes(manifest);
  check_range("the commit table's length", superblock.table_bytes, length, length);
  check_range("the commit table's length", static_cast<std::int64_t>(bytes.size()), length, length);
  if (table_checksum(bytes, superblock.sequence) != superblock.table_checksum) {
    throw FormatError("the commit table is not the one that its superblock was written for");
  }
  check_magic(bytes, kTableMagic, "commit table");
  const std::int64_t units = units_of(manifest);
  const std::int64_t blocks = manifest.committed_blocks();
  check_range("the commit table's sequence number", kTableSequence.get(bytes), superblock.sequence,
              superblock.sequence);
  check_range("the commit table's units", kTableUnits.get(bytes), units, units);
  check_range("the commit table's blocks", kTableBlocks.get(bytes), blocks, blocks);
  CommitTable table;
  for (std::size_t u = 0; u < manifest.units.size(); ++u) {
    const auto byte = std::to_integer<unsigned>(bytes[kLiveBitsOffset + u / 8]);
    table.live_slots.push_back(static_cast<std::uint8_t>(byte >> u % 8 & 1u));
    check_range("a live slot", table.live_slots.back(), 0, slots_of(manifest.units[u]) - 1);
  }
  for (std::int64_t b = 0; b < blocks; ++b) {
    table.checksums.push_back(checksum_field(manifest, static_cast<std::size_t>(b)).get(bytes));
  }
  return table;
}

std::uint64_t table_checksum(std::span<const std::byte> encoded, std::int64_t sequence) {
  return checksum(encoded.data(), static_cast<std::int64_t>(encoded.size()),
                  kTableSeed + static_cast<std::uint64_t>(sequence));
}

}  // namespace strata::store

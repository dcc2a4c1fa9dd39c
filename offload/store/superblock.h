// Superblock and CommitTable: what makes the slots of a store a state that a run can go on from.
//
// Two copies of each, in the file of a rank's first directory. Commit n (the sequence number, from
// 1 on) is written into copy n % 2: the table first, then, once it is durable, the superblock,
// which holds the table's checksum. The other copy is the commit before.
//
//   copy:  erased (zeros) ──write──▶ valid ──overwritten by commit n + 2──▶ valid
//                                      └──erased before the first write after a resume from an
//                                         older step, or after the mark of a one-slot store──▶
//                                         erased
//
// Runs do not resume yet: only tests encode and decode these, and runs reserve their room. Pure
// functions on bytes. Decoding trusts nothing, and throws FormatError.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "offload/store/file_header.h"
#include "offload/store/manifest.h"

namespace strata::store {

// What a run needs, besides its state, to go on after a step as if it had not stopped.
struct Snapshot {
  std::int64_t data_position = 0;  // of the next sequence
  std::int64_t schedule_step = 0;
  std::int64_t optimizer_step = 0;  // Adam's
  std::int64_t skipped_in_a_row = 0;
  std::array<std::uint64_t, 4> random_state{};
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

// clean_mark: of a one-slot store, "clean at this step": a stopping point and no checkpoint.
enum class SuperblockKind : std::int32_t { commit = 1, clean_mark = 2 };

struct Superblock {
  SuperblockKind kind = SuperblockKind::commit;
  RunId run_id{};
  int rank = 0;
  int world_size = 1;
  std::int64_t sequence = 1;
  std::int64_t step = 0;
  std::int64_t table_bytes = 0;
  std::uint64_t table_checksum = 0;
  Snapshot snapshot;

  int copy() const { return static_cast<int>(sequence % 2); }
};

// kSuperblockBytes.
std::vector<std::byte> encode(const Superblock& superblock);
// Of copy 0 or 1. Nothing: erased, or never written.
std::optional<Superblock> decode_superblock(std::span<const std::byte> bytes, int copy);

struct CommitTable {
  std::int64_t sequence = 1;             // its superblock's
  std::vector<std::uint8_t> live_slots;  // of each unit's shard: 0 or 1
  // Of the live slots: by unit, kind and block; gradients have none.
  std::vector<std::uint64_t> checksums;
};

// Bytes of a commit table of a store, in whole pages.
std::int64_t commit_table_bytes(const Manifest& manifest);

std::vector<std::byte> encode(const CommitTable& table, const Manifest& manifest);
CommitTable decode_commit_table(std::span<const std::byte> bytes, const Superblock& superblock,
                                const Manifest& manifest);
// For Superblock::table_checksum.
std::uint64_t table_checksum(std::span<const std::byte> encoded, std::int64_t sequence);

}  // namespace strata::store

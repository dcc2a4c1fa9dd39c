// Superblock and CommitTable: what makes the slots of a store a state that a run can go on from.
//
// Two copies of each, in the file of a rank's first directory. Superblock n (the sequence number,
// from 1 on) is written into copy n % 2, after the table of the same copy, whose checksum it holds.
// The other copy is the one before. The newest valid one counts (commit_log.h).
//
//   copy:  erased (zeros) ──write──▶ valid ──overwritten by superblock n + 2──▶ valid
//                                      └──erased when a run goes on from the other one──▶ erased
//
// Pure functions on bytes. Encoding allocates nothing. Decoding trusts nothing, and throws
// FormatError.
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

// commit: of a two-slot store. The other two are marks of a one-slot store. clean_mark: all of it
// is of this step, a stopping point and no checkpoint. started: updates of the step after this one
// began; it has no table.
enum class SuperblockKind : std::int32_t { commit = 1, clean_mark = 2, started = 3 };
const char* name_of(SuperblockKind kind);  // "clean mark"

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

// Into kSuperblockBytes.
void encode(const Superblock& superblock, std::span<std::byte> bytes);
// Of copy 0 or 1. Nothing: erased, or never written.
std::optional<Superblock> decode_superblock(std::span<const std::byte> bytes, int copy);

struct CommitTable {
  std::vector<std::uint8_t> live_slots;  // of each unit's shard: 0 or 1
  // Of the live slots: by unit, kind and block; gradients have none.
  std::vector<std::uint64_t> checksums;
};

// Bytes of a commit table of a store, in whole pages.
std::int64_t commit_table_bytes(const Manifest& manifest);

// As the table of superblock `sequence`, into commit_table_bytes(manifest).
void encode(const CommitTable& table, std::int64_t sequence, const Manifest& manifest,
            std::span<std::byte> bytes);
CommitTable decode_commit_table(std::span<const std::byte> bytes, const Superblock& superblock,
                                const Manifest& manifest);
// For Superblock::table_checksum.
std::uint64_t table_checksum(std::span<const std::byte> encoded, std::int64_t sequence);

}  // namespace strata::store

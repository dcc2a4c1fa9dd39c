// Stores whose blocks have known bytes, and the commit tables that fit them. Checksums come from
// xxHash and the seeds that docs/store-format.md gives, not from the code under test.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <string>

#include "kernels/base/bytes.h"
#include "kernels/base/split_mix.h"
#include "offload/store/commit_log.h"
#include "offload/store/superblock.h"
#include "tests/offload/store/made_store.h"

namespace strata::store::testing {

inline constexpr std::int64_t kStagingBytes = 64 << 10;  // more than any block of a small store

struct Staging {
  Budget budget{"host memory", kStagingBytes};
  AlignedBuffer buffer{budget, "staging", kStagingBytes};
};

// Calls body(unit, kind, block, bytes of the block) for every block of a commit, in its order.
template <typename Body>
void for_each_block(const Manifest& manifest, const Body& body) {
  for (int unit = 0; unit < static_cast<int>(manifest.units.size()); ++unit) {
    for (const offload::StateKind kind : offload::kLastingKinds) {
      const auto& extent =
          manifest.units[static_cast<std::size_t>(unit)].extents[static_cast<std::size_t>(kind)];
      if (!extent) continue;
      const std::int64_t whole = offload::state_bytes(
          kind, manifest.dtypes, manifest.block_elements, manifest.block_elements);
      for (std::int64_t at = 0; at < extent->bytes; at += whole) {
        body(unit, kind, at / whole, std::min(whole, extent->bytes - at));
      }
    }
  }
}

// What block `block` of a state holds in a slot after `version` writes of everything.
inline void fill_block(AlignedSpan bytes, int unit, offload::StateKind kind, std::int64_t block,
                       int slot, std::uint64_t version) {
  const auto number =
      static_cast<std::uint64_t>(((unit * 8 + static_cast<int>(kind)) * 64 + block));
  SplitMix64 random{(version * 2 + static_cast<std::uint64_t>(slot)) << 32 | number};
  for (std::int64_t i = 0; i < bytes.bytes() / 8; ++i) bytes.as<std::uint64_t>()[i] = random();
}

inline std::uint64_t documented_checksum(AlignedSpan bytes, int unit, offload::StateKind kind,
                                         std::int64_t block) {
  const std::uint64_t seed = (static_cast<std::uint64_t>(5 * unit + static_cast<int>(kind)) << 40) +
                             static_cast<std::uint64_t>(block);
  const std::uint64_t sum =
      XXH3_64bits_withSeed(bytes.data(), static_cast<std::size_t>(bytes.bytes()), seed);
  return sum == 0 ? 1 : sum;
}

// Writes every block of each unit's slot `live_slots[unit]`; returns the table of such a commit.
inline CommitTable fill_slots(io::Storage& data, const Manifest& manifest,
                              std::vector<std::uint8_t> live_slots, std::uint64_t version) {
  const Staging staging;
  CommitTable table;
  table.live_slots = std::move(live_slots);
  for_each_block(manifest, [&](int unit, offload::StateKind kind, std::int64_t block,
                               std::int64_t bytes) {
    const AlignedSpan memory = staging.buffer.span(0, bytes);
    const int slot = table.live_slots[static_cast<std::size_t>(unit)];
    fill_block(memory, unit, kind, block, slot, version);
    const Extent& extent =
        *manifest.units[static_cast<std::size_t>(unit)].extents[static_cast<std::size_t>(kind)];
    const std::int64_t whole = offload::state_bytes(kind, manifest.dtypes, manifest.block_elements,
                                                    manifest.block_elements);
    io::IoGroup group;
    data.write(extent.slot_offsets[static_cast<std::size_t>(slot)] + block * whole, memory, group);
    group.wait();
    table.checksums.push_back(documented_checksum(memory, unit, kind, block));
  });
  return table;
}

// The log of a store, from its beginning.
struct NewLog {
  NewLog(io::Volume& volume, const Manifest& manifest)
      : header(read_header(volume)),
        budget("host memory", CommitLog::staging_bytes(manifest)),
        staging(budget, "staging", CommitLog::staging_bytes(manifest)),
        log(volume, volume.file(0), header, manifest, staging.span()) {}

  FileHeader header;
  Budget budget;
  AlignedBuffer staging;
  CommitLog log;
};

// Commits these steps to a new store of two slots, of which they use one in turn, the first slot
// first. A step's blocks are those of fill_block() for it as a version.
inline void commit_steps(io::Volume& volume, const Manifest& manifest,
                         const std::vector<std::int64_t>& steps) {
  NewLog log(volume, manifest);
  std::uint8_t slot = 0;
  for (const std::int64_t step : steps) {
    const CommitTable table =
        fill_slots(volume, manifest, std::vector<std::uint8_t>(manifest.units.size(), slot),
                   static_cast<std::uint64_t>(step));
    log.log.write(SuperblockKind::commit, step, {}, &table);
    slot = 1 - slot;
  }
}

// What a run without checkpoints leaves that stopped at `step` and died after it had gone on.
inline void mark_clean_and_started(io::Volume& volume, const Manifest& manifest,
                                   std::int64_t step) {
  NewLog log(volume, manifest);
  const CommitTable table =
      fill_slots(volume, manifest, std::vector<std::uint8_t>(manifest.units.size()), /*version=*/1);
  log.log.write(SuperblockKind::clean_mark, step, {}, &table);
  log.log.write(SuperblockKind::started, step, {}, nullptr);
}

}  // namespace strata::store::testing

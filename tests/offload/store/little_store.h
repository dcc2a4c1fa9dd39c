// LittleStore: a store of three units, the last of them frozen, updated and committed as a run does
// it, on drives of the test's choice; and Expectations, the oracle of what a crash may leave.
//
// Every update writes bytes of a version of its own, every superblock carries a number of its own
// (its id: step and data position), so that what is found says where it came from.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "io/crash_disk.h"
#include "io/engine_storage.h"
#include "io/volume.h"
#include "offload/store/commit_log.h"
#include "tests/offload/store/filled_store.h"

namespace strata::store::testing {

// Lives through crashes.
struct Expectations {
  static constexpr int kNothing = -1;

  std::vector<std::array<int, 3>> versions;  // of the units, by id
  std::set<int> newest{kNothing};            // ids, of which a crash may leave any as the newest
  int last_version = 0;

  // Around whatever makes `id` the newest, durably.
  template <typename Action>
  void while_becoming(int id, const Action& action) {
    newest.insert(id);
    action();
    newest = {id};
  }
};

inline int id_of(const FoundCommit& found) { return static_cast<int>(found.superblock.step); }

inline Manifest little_manifest(int slots) {
  Manifest manifest;
  manifest.block_elements = 4096;
  manifest.slots = slots;
  constexpr std::int64_t kBlocks[] = {2, 1, 1};
  for (std::size_t u = 0; u < 3; ++u) {
    StoredUnit unit;
    unit.name = std::string(1, static_cast<char>('a' + u));
    unit.elements = unit.shard_elements = kBlocks[u] * manifest.block_elements;
    const auto second = u == 1 ? offload::StateKind::moment1 : offload::StateKind::remainder;
    for (const offload::StateKind kind : {offload::StateKind::weights, second}) {
      const std::int64_t bytes =
          offload::state_bytes(kind, manifest.dtypes, unit.shard_elements, manifest.block_elements);
      Extent extent{bytes, {}};
      for (int slot = 0; slot < (u == 2 ? 1 : slots); ++slot) {
        extent.slot_offsets.push_back(manifest.data_bytes);
        manifest.data_bytes += bytes;
      }
      unit.extents[static_cast<std::size_t>(kind)] = extent;
    }
    manifest.units.push_back(std::move(unit));
  }
  return manifest;
}

inline FileHeader little_header(const Manifest& manifest) {
  constexpr std::int64_t kStripeBytes = 8192;
  FileHeader header;
  header.run_id = parse_run_id("00112233445566778899aabbccddeeff");
  header.world_size = 2;
  header.manifest_bytes = static_cast<std::int64_t>(encode(manifest).size());
  header.commit_table_bytes = commit_table_bytes(manifest);
  header.data_bytes = manifest.data_bytes;
  header.stripe_bytes = kStripeBytes;
  const std::int64_t stripes = ceil_div(manifest.data_bytes, kStripeBytes);
  header.shares = {{1, stripes / 2}, {1, stripes - stripes / 2}};
  return header;
}

inline io::VolumeFiles little_files(const FileHeader& header) {
  io::VolumeFiles files;
  files.shares = header.shares;
  files.capacity_bytes = header.data_bytes;
  files.metadata_bytes = header.layout().bytes;
  files.stripe_bytes = header.stripe_bytes;
  return files;
}

class LittleStore {
 public:
  static constexpr std::array kUpdated = {0, 1};  // units that are not frozen

  LittleStore(int slots, std::vector<std::unique_ptr<io::EngineStorage>> drives,
              Expectations& expected)
      : expected_(expected),
        manifest_(little_manifest(slots)),
        header_(little_header(manifest_)),
        volume_(io::volume_over(std::move(drives), little_files(header_))) {
    table_.live_slots = {0, 0, 0};
    table_.checksums.resize(static_cast<std::size_t>(manifest_.committed_blocks()));
  }

  // Of each of its files.
  static std::vector<std::int64_t> file_bytes(int slots) {
    const io::VolumeFiles files = little_files(little_header(little_manifest(slots)));
    return {files.file_bytes(0), files.file_bytes(1)};
  }
  static std::vector<io::CrashDisk::Image> blank(int slots) {
    std::vector<io::CrashDisk::Image> images;
    for (const std::int64_t bytes : file_bytes(slots)) {
      images.emplace_back(static_cast<std::size_t>(bytes));
    }
    return images;
  }

  CommitLog& log() { return log_; }
  const Manifest& manifest() const { return manifest_; }
  const FileHeader& header() const { return header_; }
  io::Volume& volume() { return *volume_; }
  const CommitTable& table() const { return table_; }

  // The initial state of every unit.
  void fill() {
    for (int unit = 0; unit < 3; ++unit) write(unit);
  }

  void update(int unit) {
    auto& live = table_.live_slots.at(static_cast<std::size_t>(unit));
    bool& is_protected = protected_.at(static_cast<std::size_t>(unit));
    if (manifest_.slots == 2 && is_protected) live = static_cast<std::uint8_t>(1 - live);
    is_protected = false;
    write(unit);
  }

  // A commit or a clean mark.
  void save(SuperblockKind kind) { mark(kind, &table_); }
  void mark_started() { mark(SuperblockKind::started, nullptr); }

  // Goes on from what log().read() found, or from nothing.
  void adopt(const FoundCommit* found) {
    const int id = found != nullptr ? id_of(*found) : Expectations::kNothing;
    expected_.while_becoming(
        id, [&] { log_.continue_after(found != nullptr ? &found->superblock : nullptr); });
    if (found == nullptr) return;
    table_ = found->table;
    versions_ = expected_.versions.at(static_cast<std::size_t>(id));
    protected_ = {true, true, true};
  }

  // Every block of it is as it was when it was made.
  void expect_whole(const FoundCommit& found) {
    const auto versions = expected_.versions.at(static_cast<std::size_t>(id_of(found)));
    EXPECT_EQ(found.superblock.snapshot.data_position, id_of(found));
    io::IoGroup group;
    each_block(found.table, [&](const Block& block, std::size_t) {
      volume_->read(block.offset_bytes, block.memory, group);
    });
    group.wait();
    const Staging right;
    each_block(found.table, [&](const Block& block, std::size_t index) {
      const AlignedSpan expected = right.buffer.span(0, block.memory.bytes());
      fill(block, versions, expected);
      EXPECT_EQ(std::memcmp(block.memory.data(), expected.data(),
                            static_cast<std::size_t>(expected.bytes())),
                0)
          << "block " << block.number << " of unit " << block.unit << " in slot " << block.slot;
      EXPECT_EQ(found.table.checksums.at(index), sum_of(block, expected));
    });
  }

 private:
  struct Block {
    int unit;
    offload::StateKind kind;
    std::int64_t number;
    int slot;                   // live
    std::int64_t offset_bytes;  // in the data
    AlignedSpan memory;         // of its own
  };

  // Calls body(block, index of its checksum).
  template <typename Body>
  void each_block(const CommitTable& table, const Body& body) {
    std::size_t index = 0;
    std::int64_t memory_bytes = 0;
    for_each_block(
        manifest_, [&](int unit, offload::StateKind kind, std::int64_t number, std::int64_t bytes) {
          const auto u = static_cast<std::size_t>(unit);
          const int slot = table.live_slots.at(u);
          const std::int64_t whole_bytes = offload::state_bytes(
              kind, manifest_.dtypes, manifest_.block_elements, manifest_.block_elements);
          const Extent& extent = *manifest_.units.at(u).extents.at(static_cast<std::size_t>(kind));
          const std::int64_t at = extent.slot_offsets.at(static_cast<std::size_t>(slot));
          body(Block{unit, kind, number, slot, at + number * whole_bytes,
                     memory_.span(memory_bytes, bytes)},
               index++);
          memory_bytes += bytes;
        });
  }

  static void fill(const Block& block, const std::array<int, 3>& versions, AlignedSpan memory) {
    const int version = versions.at(static_cast<std::size_t>(block.unit));
    fill_block(memory, block.unit, block.kind, block.number, block.slot,
               static_cast<std::uint64_t>(version));
  }
  static std::uint64_t sum_of(const Block& block, AlignedSpan bytes) {
    return documented_checksum(bytes, block.unit, block.kind, block.number);
  }

  // Into the live slot.
  void write(int unit) {
    versions_.at(static_cast<std::size_t>(unit)) = ++expected_.last_version;
    io::IoGroup group;
    each_block(table_, [&](const Block& block, std::size_t index) {
      if (block.unit != unit) return;
      fill(block, versions_, block.memory);
      table_.checksums.at(index) = sum_of(block, block.memory);
      volume_->write(block.offset_bytes, block.memory, group);
    });
    group.wait();
  }

  void mark(SuperblockKind kind, const CommitTable* table) {
    const auto id = static_cast<int>(expected_.versions.size());
    expected_.versions.push_back(versions_);
    expected_.while_becoming(id, [&] { log_.write(kind, id, {.data_position = id}, table); });
    protected_ = {true, true, true};
  }

  static constexpr std::int64_t kMemoryBytes = 128 << 10;  // more than all live slots

  Expectations& expected_;
  const Manifest manifest_;
  const FileHeader header_;
  Budget budget_{"host memory", kMemoryBytes};
  AlignedBuffer memory_{budget_, "blocks", kMemoryBytes};
  Staging staging_;
  std::unique_ptr<io::Volume> volume_;  // ends before the memory
  CommitLog log_{*volume_, volume_->file(0), header_, manifest_, staging_.buffer.span()};
  CommitTable table_;
  std::array<int, 3> versions_{};
  std::array<bool, 3> protected_{};
};

}  // namespace strata::store::testing

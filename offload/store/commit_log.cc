#include "offload/store/commit_log.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "kernels/base/error.h"
#include "offload/store/field.h"

namespace strata::store {

namespace {

constexpr std::array<int, 2> kCopies = {0, 1};

std::span<std::byte> bytes_of(AlignedSpan memory) {
  return {memory.data(), static_cast<std::size_t>(memory.bytes())};
}

// A store of two slots has commits, one of one slot has marks.
bool belongs(SuperblockKind kind, const Manifest& manifest) {
  return (kind == SuperblockKind::commit) == (manifest.slots == 2);
}

void check_owner(const Superblock& superblock, const FileHeader& header, const Manifest& manifest) {
  if (superblock.run_id != header.run_id) {
    throw_error<FormatError>("the superblock belongs to store {}, not {}",
                             format_run_id(superblock.run_id), format_run_id(header.run_id));
  }
  check_range("the superblock's rank", superblock.rank, header.rank, header.rank);
  check_range("the superblock's world size", superblock.world_size, header.world_size,
              header.world_size);
  if (!belongs(superblock.kind, manifest)) {
    throw_error<FormatError>("the superblock is a {}, which a store of {} slots has not",
                             name_of(superblock.kind), manifest.slots);
  }
}

void read_now(io::Storage& file, std::int64_t offset_bytes, AlignedSpan destination) {
  io::IoGroup group;
  file.read(offset_bytes, destination, group);
  group.wait();
}

void write_now(io::Storage& file, std::int64_t offset_bytes, AlignedSpan source) {
  io::IoGroup group;
  file.write(offset_bytes, source, group);
  group.wait();
}

void flush_now(io::Storage& storage) {
  io::IoGroup group;
  storage.flush(group);
  group.wait();
}

}  // namespace

CommitLog::CommitLog(io::Storage& data, io::Storage& metadata, const FileHeader& header,
                     const Manifest& manifest, AlignedSpan staging)
    : data_(data),
      metadata_(metadata),
      header_(header),
      manifest_(manifest),
      layout_(header.layout()),
      staging_(staging) {
  STRATA_CHECK(header.commit_table_bytes == commit_table_bytes(manifest) &&
               staging.bytes() >= staging_bytes(manifest));
}

std::int64_t CommitLog::staging_bytes(const Manifest& manifest) {
  return kSuperblockBytes + commit_table_bytes(manifest);
}

FoundCommits CommitLog::read() {
  FoundCommits found;
  for (const int copy : kCopies) {
    try {
      read_copy(copy, found);
    } catch (const FormatError& error) {
      found.problems.push_back(
          fmt::format("{}, copy {}: {}", metadata_.device_path(0), copy, error.what()));
    }
  }
  std::ranges::sort(found.valid, std::ranges::greater(),
                    [](const FoundCommit& commit) { return commit.superblock.sequence; });
  return found;
}

void CommitLog::read_copy(int copy, FoundCommits& found) {
  const auto at = static_cast<std::size_t>(copy);
  read_now(metadata_, layout_.superblocks[at], superblock_memory());
  const auto superblock = decode_superblock(bytes_of(superblock_memory()), copy);
  if (!superblock) return;
  check_owner(*superblock, header_, manifest_);
  CommitTable table;
  if (superblock->kind != SuperblockKind::started) {
    read_now(metadata_, layout_.commit_tables[at], table_memory());
    try {
      table = decode_commit_table(bytes_of(table_memory()), *superblock, manifest_);
    } catch (const FormatError&) {
      found.without_table.push_back(*superblock);
      throw;
    }
  }
  found.valid.push_back({*superblock, std::move(table)});
}

void CommitLog::continue_after(const Superblock* kept) {
  std::memset(superblock_memory().data(), 0, kSuperblockBytes);
  for (const int copy : kCopies) {
    if (kept != nullptr && kept->copy() == copy) continue;
    write_now(metadata_, layout_.superblocks[static_cast<std::size_t>(copy)], superblock_memory());
  }
  flush_now(metadata_);
  sequence_ = kept != nullptr ? kept->sequence : 0;
}

void CommitLog::write(SuperblockKind kind, std::int64_t step, const Snapshot& snapshot,
                      const CommitTable* table) {
  STRATA_CHECK(belongs(kind, manifest_), "a {} in a store of {} slots", name_of(kind),
               manifest_.slots);
  STRATA_CHECK((table == nullptr) == (kind == SuperblockKind::started));
  Superblock superblock{.kind = kind,
                        .run_id = header_.run_id,
                        .rank = header_.rank,
                        .world_size = header_.world_size,
                        .sequence = sequence_ + 1,
                        .step = step,
                        .snapshot = snapshot};
  const auto copy = static_cast<std::size_t>(superblock.copy());
  if (table != nullptr) {
    const std::span<std::byte> encoded = bytes_of(table_memory());
    encode(*table, superblock.sequence, manifest_, encoded);
    superblock.table_bytes = std::ssize(encoded);
    superblock.table_checksum = table_checksum(encoded, superblock.sequence);
    write_now(metadata_, layout_.commit_tables[copy], table_memory());
  }
  flush_now(data_);
  encode(superblock, bytes_of(superblock_memory()));
  write_now(metadata_, layout_.superblocks[copy], superblock_memory());
  flush_now(metadata_);
  sequence_ = superblock.sequence;
}

}  // namespace strata::store

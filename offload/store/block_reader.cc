#include "offload/store/block_reader.h"

#include <algorithm>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "offload/store/checksum.h"

namespace strata::store {

using offload::StateKind;

namespace {

constexpr std::uint64_t kNeverWritten = 0;  // as a checksum

// docs/store-format.md, "Checksums".
std::uint64_t block_seed(int unit, StateKind kind, std::int64_t block) {
  const std::int64_t extent = std::int64_t{unit} * offload::kStateKinds + static_cast<int>(kind);
  return static_cast<std::uint64_t>(extent << 40 | block);
}

}  // namespace

BlockReader::BlockReader(io::Storage& data, const Manifest& manifest, int rank)
    : data_(data), manifest_(manifest), rank_(rank), first_checksum_(manifest.units.size()) {
  std::int64_t next = 0;
  for (std::size_t u = 0; u < manifest.units.size(); ++u) {
    for (int k = 0; k < offload::kStateKinds; ++k) {
      first_checksum_[u][static_cast<std::size_t>(k)] = next;
      next += blocks(static_cast<int>(u), static_cast<StateKind>(k));
    }
  }
  STRATA_CHECK(next == manifest.committed_blocks());
}

const Extent* BlockReader::committed_extent(int unit, StateKind kind) const {
  const StoredUnit& stored = manifest_.units[static_cast<std::size_t>(unit)];
  const std::optional<Extent>& extent = stored.extents[static_cast<std::size_t>(kind)];
  return extent && kind != StateKind::gradients ? &*extent : nullptr;
}

std::int64_t BlockReader::block_bytes(StateKind kind) const {
  return offload::state_bytes(kind, manifest_.dtypes, manifest_.block_elements,
                              manifest_.block_elements);
}

std::int64_t BlockReader::blocks(int unit, StateKind kind) const {
  const Extent* const extent = committed_extent(unit, kind);
  return extent == nullptr ? 0 : ceil_div(extent->bytes, block_bytes(kind));
}

std::int64_t BlockReader::bytes_of(int unit, StateKind kind, std::int64_t block) const {
  STRATA_CHECK(block >= 0 && block < blocks(unit, kind), "block {} of unit {}, {}", block, unit,
               offload::name_of(kind));
  const std::int64_t whole = block_bytes(kind);
  return std::min(whole, committed_extent(unit, kind)->bytes - block * whole);
}

std::int64_t BlockReader::offset_of(const CommitTable& table, int unit, StateKind kind,
                                    std::int64_t block) const {
  const std::vector<std::int64_t>& slots = committed_extent(unit, kind)->slot_offsets;
  const std::size_t live = table.live_slots[static_cast<std::size_t>(unit)];
  STRATA_CHECK(live < slots.size());
  return slots[live] + block * block_bytes(kind);
}

std::int64_t BlockReader::start(const CommitTable& table, int unit, StateKind kind,
                                std::int64_t block, AlignedSpan destination,
                                io::IoGroup& group) const {
  const std::int64_t bytes = bytes_of(unit, kind, block);
  data_.read(offset_of(table, unit, kind, block), destination.sub(0, bytes), group);
  return bytes;
}

bool BlockReader::is_intact(const CommitTable& table, int unit, StateKind kind, std::int64_t block,
                            AlignedSpan bytes) const {
  STRATA_CHECK(bytes.bytes() == bytes_of(unit, kind, block));
  const std::int64_t first =
      first_checksum_[static_cast<std::size_t>(unit)][static_cast<std::size_t>(kind)];
  const std::uint64_t written = table.checksums[static_cast<std::size_t>(first + block)];
  const std::uint64_t found = checksum(bytes.data(), bytes.bytes(), block_seed(unit, kind, block));
  return written != kNeverWritten && written == std::max<std::uint64_t>(found, 1);
}

std::int64_t BlockReader::read(const CommitTable& table, int unit, StateKind kind,
                               std::int64_t block, AlignedSpan destination) const {
  io::IoGroup group;
  const std::int64_t bytes = start(table, unit, kind, block, destination, group);
  group.wait();
  if (!is_intact(table, unit, kind, block, destination.sub(0, bytes))) {
    throw_error<IoError>(
        "read {}: {} bytes in {} are not those that were written there; the drive or the way to "
        "it damaged, lost or misplaced them",
        describe(unit, kind, block), bytes, locate(table, unit, kind, block));
  }
  return bytes;
}

std::vector<ParameterRange> BlockReader::parameters_of(int unit, std::int64_t first_block,
                                                       std::int64_t blocks) const {
  const StoredUnit& stored = manifest_.units[static_cast<std::size_t>(unit)];
  // In the unsharded unit.
  const std::int64_t shard = rank_ * stored.shard_elements;
  const std::int64_t first = shard + first_block * manifest_.block_elements;
  const std::int64_t last =
      std::min(first + blocks * manifest_.block_elements, shard + stored.shard_elements);
  std::vector<ParameterRange> ranges;
  for (const Parameter& parameter : stored.parameters) {
    const std::int64_t begin = parameter.offset_elements;
    const std::int64_t end = begin + parameter.rows * parameter.columns;
    if (std::max(begin, first) >= std::min(end, last)) continue;
    const std::int64_t in_tensor = parameter.first_row * parameter.columns - begin;
    ranges.push_back(
        {parameter.name, std::max(begin, first) + in_tensor, std::min(end, last) + in_tensor});
  }
  return ranges;
}

std::string BlockReader::describe(int unit, StateKind kind, std::int64_t first_block,
                                  std::int64_t blocks) const {
  std::string parameters;
  for (const ParameterRange& range : parameters_of(unit, first_block, blocks)) {
    parameters += fmt::format("{}{} [{}, {})", parameters.empty() ? "" : ", ", range.parameter,
                              range.first, range.last);
  }
  const std::string& name = manifest_.units[static_cast<std::size_t>(unit)].name;
  return fmt::format("{} of {}", offload::name_of(kind),
                     parameters.empty() ? "padding of " + name : parameters);
}

std::string BlockReader::locate(const CommitTable& table, int unit, StateKind kind,
                                std::int64_t block) const {
  return data_.locate(offset_of(table, unit, kind, block));
}

}  // namespace strata::store

#include "offload/store/manifest_check.h"

#include <algorithm>
#include <utility>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/error.h"
#include "offload/store/field.h"

namespace strata::store {

using offload::StateKind;

namespace {

constexpr std::int64_t kElementsMax = std::int64_t{1} << 48;
constexpr std::int64_t kBlockElementsMax = std::int64_t{1} << 30;
constexpr std::int64_t kBytesMax = std::int64_t{1} << 60;

void check_multiple(const char* name, std::int64_t value, std::int64_t last) {
  check_range(name, value, 1, last);
  if (value % offload::kShardAlignmentElements != 0) {
    throw_error<FormatError>("{} is {}, no multiple of {}", name, value,
                             offload::kShardAlignmentElements);
  }
}

void check_parameters(const StoredUnit& unit) {
  std::int64_t end = 0;  // of the parameter before
  for (const Parameter& parameter : unit.parameters) {
    check_range("a parameter's rows", parameter.rows, 1, kElementsMax);
    check_range("a parameter's columns", parameter.columns, 1, kElementsMax / parameter.rows);
    check_range("a parameter's first row", parameter.first_row, 0, kElementsMax);
    check_range("a parameter's offset", parameter.offset_elements, end, unit.elements);
    end = parameter.offset_elements + parameter.rows * parameter.columns;
    check_range("a parameter's end", end, 1, unit.elements);
  }
}

void check_length(const Manifest& manifest, const StoredUnit& unit, StateKind kind,
                  std::int64_t bytes) {
  const bool matches =
      kind == StateKind::gradients
          ? bytes == unit.shard_elements * 4 || bytes == unit.shard_elements * 2
          : bytes == offload::state_bytes(kind, manifest.dtypes, unit.shard_elements,
                                          manifest.block_elements);
  if (bytes <= 0 || !matches) {
    throw_error<FormatError>("the {} of {} have {} bytes in the manifest", offload::name_of(kind),
                             unit.name, bytes);
  }
}

// As many as its first lasting state has: one live bit serves all of them.
std::int64_t shard_slots(const Manifest& manifest, const StoredUnit& unit) {
  for (const StateKind kind : offload::kLastingKinds) {
    const std::optional<Extent>& extent = unit.extents[static_cast<std::size_t>(kind)];
    if (!extent) continue;
    const auto slots = static_cast<std::int64_t>(extent->slot_offsets.size());
    check_range("an extent's slots", slots, 1, manifest.slots);
    return slots;
  }
  return manifest.slots;
}

using Range = std::pair<std::int64_t, std::int64_t>;  // offset, bytes

void check_extents(const Manifest& manifest, const StoredUnit& unit, std::vector<Range>& ranges) {
  const std::int64_t of_shard = shard_slots(manifest, unit);
  for (std::size_t k = 0; k < unit.extents.size(); ++k) {
    const std::optional<Extent>& extent = unit.extents[k];
    if (!extent) continue;
    const auto kind = static_cast<StateKind>(k);
    check_length(manifest, unit, kind, extent->bytes);
    const auto slots = static_cast<std::int64_t>(extent->slot_offsets.size());
    const std::int64_t wanted = kind == StateKind::gradients ? 1 : of_shard;
    check_range("an extent's slots", slots, wanted, wanted);
    for (const std::int64_t offset : extent->slot_offsets) {
      check_range("an extent's offset", offset, 0, manifest.data_bytes - extent->bytes);
      if (offset % kPageBytes != 0) {
        throw_error<FormatError>("an extent's offset is {}, within a page", offset);
      }
      ranges.emplace_back(offset, extent->bytes);
    }
  }
}

}  // namespace

void check(const Manifest& manifest) {
  check_multiple("the block's elements", manifest.block_elements, kBlockElementsMax);
  check_range("the data's length", manifest.data_bytes, 0, kBytesMax);
  std::vector<Range> ranges;
  for (const StoredUnit& unit : manifest.units) {
    check_range("a unit's elements", unit.elements, 1, kElementsMax);
    check_multiple("a shard's elements", unit.shard_elements, kElementsMax);
    check_parameters(unit);
    check_extents(manifest, unit, ranges);
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i - 1].first + ranges[i - 1].second > ranges[i].first) {
      throw_error<FormatError>("two extents overlap at offset {}", ranges[i].first);
    }
  }
}

}  // namespace strata::store

#include "engine/portable/parameters.h"

#include <algorithm>
#include <map>

#include "kernels/base/bytes.h"

namespace strata::engine {

namespace {

// The groups of int8 that elements [first, last) of a unit have a part of.
std::int64_t group_of(std::int64_t element) { return element / kScaleElements; }
std::int64_t group_end(std::int64_t last) { return ceil_div(last, kScaleElements); }

}  // namespace

PortableParameters::PortableParameters(const store::Manifest& manifest)
    : block_elements_max_(manifest.block_elements) {
  std::map<std::string, int> indices;
  for (const store::StoredUnit& stored : manifest.units) {
    Unit& unit = units_.emplace_back(Unit{stored.shard_elements, {}});
    for (const store::Parameter& piece : stored.parameters) {
      const auto [entry, is_new] = indices.try_emplace(piece.name, static_cast<int>(all_.size()));
      if (is_new) all_.push_back({piece.name, 0, piece.columns, 0, false});
      PortableParameter& whole = all_[static_cast<std::size_t>(entry->second)];
      const std::int64_t elements = piece.rows * piece.columns;
      const std::int64_t offset = piece.offset_elements;
      unit.pieces.push_back(
          {entry->second, piece.first_row * piece.columns, offset, elements, whole.scales});
      whole.rows += piece.rows;
      whole.scales += group_end(offset + elements) - group_of(offset);
      whole.has_moments =
          whole.has_moments ||
          stored.extents[static_cast<std::size_t>(offload::StateKind::moment1)].has_value();
    }
  }
}

std::int64_t PortableParameters::blocks_of_shard(int unit) const {
  return ceil_div(units_[static_cast<std::size_t>(unit)].shard_elements, block_elements_max_);
}

std::int64_t PortableParameters::block_elements(int unit, std::int64_t block) const {
  const std::int64_t shard = units_[static_cast<std::size_t>(unit)].shard_elements;
  return std::min(block_elements_max_, shard - block * block_elements_max_);
}

std::vector<BlockRange> PortableParameters::ranges(int rank, int unit, std::int64_t block) const {
  const Unit& stored = units_[static_cast<std::size_t>(unit)];
  const std::int64_t begin = rank * stored.shard_elements + block * block_elements_max_;
  const std::int64_t end = begin + block_elements(unit, block);
  std::vector<BlockRange> ranges;
  for (const Piece& piece : stored.pieces) {
    const std::int64_t first = std::max(begin, piece.offset_elements);
    const std::int64_t last = std::min(end, piece.offset_elements + piece.elements);
    if (first >= last) continue;
    const std::int64_t in_parameter = piece.first - piece.offset_elements;
    const std::int64_t in_scales = piece.first_scale - group_of(piece.offset_elements);
    ranges.push_back({piece.parameter, first + in_parameter, last + in_parameter, first - begin,
                      group_of(first) + in_scales, group_end(last) + in_scales});
  }
  return ranges;
}

}  // namespace strata::engine

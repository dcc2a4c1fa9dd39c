// A store of one unit, in blocks of a page or so, with two slots.
#pragma once

#include "offload/store/manifest.h"

namespace strata::fuzz {

inline store::Manifest small_store() {
  constexpr std::int64_t kShard = 8192;
  store::StoredUnit unit{"ln_f", 8000, kShard, {{"ln_f.weight", 1, 8000, 0, 0}}, {}};
  store::Manifest manifest;
  manifest.block_elements = 4096;
  manifest.slots = 2;
  for (std::size_t k = 0; k < unit.extents.size(); ++k) {
    const auto kind = static_cast<offload::StateKind>(k);
    const std::int64_t bytes =
        offload::state_bytes(kind, manifest.dtypes, kShard, manifest.block_elements);
    const std::int64_t end = manifest.data_bytes;
    const bool committed = kind != offload::StateKind::gradients;
    unit.extents[k] =
        committed ? store::Extent{bytes, {end, end + bytes}} : store::Extent{bytes, {end}};
    manifest.data_bytes += committed ? 2 * bytes : bytes;
  }
  manifest.units.push_back(std::move(unit));
  return manifest;
}

}  // namespace strata::fuzz

// The manifest of a small store, with every kind of state on NVMe.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "offload/store/manifest.h"
#include "tests/offload/small_plan.h"

namespace strata::store::testing {

inline Manifest small_manifest() {
  offload::PlanInput input = offload::testing::placed(offload::Tier::nvme, offload::Tier::host);
  input.block_elements = 4096;
  std::vector<std::vector<Parameter>> parameters(input.units.size());
  parameters[0] = {{"wte.weight", 100, 100, 0, 0}, {"wte.weight", 99, 100, 100, 10048}};
  return make_manifest(offload::testing::plan_of(input), std::move(parameters));
}

// The same with a second slot of each shard's state behind the first.
inline Manifest two_slot_manifest() {
  Manifest manifest = small_manifest();
  manifest.slots = 2;
  for (StoredUnit& unit : manifest.units) {
    for (std::size_t k = 0; k < unit.extents.size(); ++k) {
      if (!unit.extents[k] || k == static_cast<std::size_t>(offload::StateKind::gradients))
        continue;
      unit.extents[k]->slot_offsets.push_back(manifest.data_bytes);
      manifest.data_bytes += unit.extents[k]->bytes;
    }
  }
  return manifest;
}

}  // namespace strata::store::testing

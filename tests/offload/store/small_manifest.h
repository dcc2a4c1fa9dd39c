// The manifest of a small store, with every kind of state on NVMe.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "offload/store/manifest.h"
#include "tests/offload/small_plan.h"

namespace strata::store::testing {

inline Manifest small_manifest(offload::Durability durability = offload::Durability::none) {
  offload::PlanInput input = offload::testing::placed(offload::Tier::nvme, offload::Tier::host);
  input.block_elements = 4096;
  input.durability = durability;
  std::vector<std::vector<Parameter>> parameters(input.units.size());
  parameters[0] = {{"wte.weight", 100, 100, 0, 0}, {"wte.weight", 99, 100, 100, 10048}};
  return make_manifest(offload::testing::plan_of(input), std::move(parameters));
}

// The same with two slots of each shard's state.
inline Manifest two_slot_manifest() { return small_manifest(offload::Durability::commits); }

}  // namespace strata::store::testing

#include <utility>

#include "kernels/base/error.h"
#include "offload/extent_map.h"
#include "offload/store/manifest.h"

namespace strata::store {

using offload::StateKind;

Manifest make_manifest(const offload::Plan& plan, std::vector<std::vector<Parameter>> parameters) {
  STRATA_CHECK(parameters.size() == plan.units.size());
  const offload::ExtentMap map(plan);
  Manifest manifest;
  manifest.dtypes = plan.dtypes;
  manifest.block_elements = plan.block_elements;
  manifest.slots = plan.durability == offload::Durability::commits ? 2 : 1;
  manifest.data_bytes = map.bytes();
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const offload::UnitPlan& planned = plan.units[u];
    StoredUnit unit{
        planned.name, planned.elements, planned.shard_elements, std::move(parameters[u]), {}};
    for (std::size_t k = 0; k < unit.extents.size(); ++k) {
      const offload::Extent& extent = map.of(static_cast<int>(u), static_cast<StateKind>(k));
      if (extent.slots == 0 || extent.bytes == 0) continue;
      const auto offsets = extent.slot_offsets.begin();
      unit.extents[k] = Extent{extent.bytes, {offsets, offsets + extent.slots}};
    }
    manifest.units.push_back(std::move(unit));
  }
  return manifest;
}

}  // namespace strata::store

#include "offload/store/extent_map.h"

#include <utility>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"

namespace strata::store {

using offload::StateKind;
using offload::Tier;

ExtentMap map_extents(const offload::Plan& plan) {
  ExtentMap map;
  map.states.resize(plan.units.size());
  const auto take = [&](std::int64_t bytes) { return std::exchange(map.bytes, map.bytes + bytes); };
  for (std::size_t k = 0; k < offload::kStateKinds; ++k) {
    const auto kind = static_cast<StateKind>(k);
    for (std::size_t u = 0; u < plan.units.size(); ++u) {
      const bool stored = plan.units[u].tier(kind) == Tier::nvme;
      map.states[u][k] = stored ? take(plan.shard_bytes(plan.units[u], kind)) : ExtentMap::kAbsent;
    }
  }
  if (plan.activations == Tier::nvme) {
    for (const std::int64_t bytes : plan.record_bytes) {
      map.records.push_back(take(round_up(bytes, kPageBytes)));
    }
  }
  return map;
}

}  // namespace strata::store

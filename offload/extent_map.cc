#include "offload/extent_map.h"

#include <algorithm>
#include <utility>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"

namespace strata::offload {

namespace {

constexpr std::int64_t kRecordElementBytes = 4;

}  // namespace

ExtentMap::ExtentMap(const Plan& plan) : units_(static_cast<int>(plan.units.size())) {
  for (int u = 0; u < units_; ++u) {
    const UnitPlan& unit = plan.units[static_cast<std::size_t>(u)];
    for (int k = 0; k < kStateKinds; ++k) {
      const auto kind = static_cast<StateKind>(k);
      add({.kind = kind,
           .index = u,
           .bytes = plan.shard_bytes(unit, kind),
           .block_bytes = plan.block_bytes(kind),
           .slots = plan.slots(unit, kind)});
    }
  }
  for (std::size_t r = 0; r < plan.record_bytes.size(); ++r) {
    add({.index = static_cast<int>(r),
         .bytes = round_up(plan.record_bytes[r], kPageBytes),
         .block_bytes = plan.block_elements * kRecordElementBytes,
         .slots = plan.activations == Tier::nvme ? 1 : 0});
  }
  const auto place_kind = [&](StateKind kind, int slot) {
    for (int u = 0; u < units_; ++u) place(id(u, kind), slot);
  };
  for (int slot = 0; slot < kSlotsMax; ++slot) {
    for (const StateKind kind : kLastingKinds) place_kind(kind, slot);
  }
  place_kind(StateKind::gradients, 0);
  for (int e = id_of_record(0); e < std::ssize(extents_); ++e) place(e, 0);
}

void ExtentMap::add(Extent extent) {
  extent.first_block = blocks_;
  blocks_ += extent.blocks() * std::max(extent.slots, 1);
  extents_.push_back(extent);
}

void ExtentMap::place(int id, int slot) {
  Extent& extent = extents_[static_cast<std::size_t>(id)];
  if (slot >= extent.slots) return;
  extent.slot_offsets[static_cast<std::size_t>(slot)] =
      std::exchange(bytes_, bytes_ + extent.bytes);
}

}  // namespace strata::offload

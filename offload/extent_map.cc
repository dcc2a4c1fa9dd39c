#include "offload/extent_map.h"

#include <utility>

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"

namespace strata::offload {

namespace {

constexpr std::int64_t kRecordElementBytes = 4;

}  // namespace

ExtentMap::ExtentMap(const Plan& plan) : units_(static_cast<int>(plan.units.size())) {
  const auto add = [&](const Extent& extent) {
    extents_.push_back(extent);
    extents_.back().first_block = blocks_;
    if (extent.bytes > 0) blocks_ += ceil_div(extent.bytes, extent.block_bytes);
  };
  const auto place = [&](Extent& extent) {
    extent.offset_bytes = std::exchange(bytes_, bytes_ + extent.bytes);
  };
  for (int u = 0; u < units_; ++u) {
    const UnitPlan& unit = plan.units[static_cast<std::size_t>(u)];
    for (int k = 0; k < kStateKinds; ++k) {
      const auto kind = static_cast<StateKind>(k);
      add({.kind = kind,
           .index = u,
           .bytes = plan.shard_bytes(unit, kind),
           .block_bytes = plan.block_bytes(kind)});
    }
  }
  for (std::size_t r = 0; r < plan.record_bytes.size(); ++r) {
    add({.index = static_cast<int>(r),
         .bytes = round_up(plan.record_bytes[r], kPageBytes),
         .block_bytes = plan.block_elements * kRecordElementBytes});
  }
  for (int k = 0; k < kStateKinds; ++k) {
    const auto kind = static_cast<StateKind>(k);
    for (int u = 0; u < units_; ++u) {
      const bool on_nvme = plan.units[static_cast<std::size_t>(u)].tier(kind) == Tier::nvme;
      if (on_nvme) place(extents_[static_cast<std::size_t>(id(u, kind))]);
    }
  }
  if (plan.activations != Tier::nvme) return;
  for (std::size_t e = static_cast<std::size_t>(id_of_record(0)); e < extents_.size(); ++e) {
    place(extents_[e]);
  }
}

}  // namespace strata::offload

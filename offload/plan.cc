#include "offload/plan.h"

#include <algorithm>

#include "offload/extent_map.h"
#include "offload/store/commit_log.h"
#include "offload/store/manifest.h"

namespace strata::offload {

namespace {

// Of the longest: to copy state through on its way to the storage, and back.
constexpr int kCommitBlocks = 4;
constexpr int kLoadingBlocks = 4;  // of the longest, too

}  // namespace

std::vector<StateKind> streamed_kinds(const Plan& plan) {
  // Deferred, the weights come with the gather; in backward, the gradients come with the call.
  const StateKind other =
      plan.update == UpdateTime::deferred ? StateKind::gradients : StateKind::weights;
  std::vector<StateKind> kinds = {StateKind::remainder, StateKind::moment1, StateKind::moment2,
                                  other};
  std::erase_if(kinds, [&](StateKind kind) { return !exists(kind, plan.dtypes); });
  return kinds;
}

std::int64_t optimizer_buffer_bytes(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const StateKind kind : streamed_kinds(plan)) {
    bytes += plan.bytes_of_elements(kind, plan.chunk_elements);
  }
  // Before the first step it carries weights, too.
  return std::max(bytes, plan.bytes_of_elements(StateKind::weights, plan.chunk_elements));
}

std::int64_t loading_staging_bytes(const Plan& plan) {
  const bool loads = plan.stages_state() ? !plan.trains() : plan.homes != Homes::host;
  return loads ? kLoadingBlocks * plan.largest_block_bytes() : 0;
}

std::int64_t Plan::total_bytes(Tier tier) const {
  std::int64_t total = 0;
  for (const PlannedBuffer& buffer : buffers) {
    if (buffer.tier == tier) total += buffer.bytes;
  }
  return total;
}

std::int64_t Plan::shard_bytes(const UnitPlan& unit, StateKind kind) const {
  if (kind == StateKind::gradients) return unit.shard_elements * unit.gradient_element_bytes;
  return unit.frozen && is_moment(kind) ? 0 : bytes_of_elements(kind, unit.shard_elements);
}

std::int64_t Plan::bytes_of_elements(StateKind kind, std::int64_t elements) const {
  return state_bytes(kind, dtypes, elements, block_elements);
}

std::int64_t Plan::block_bytes(StateKind kind) const {
  return bytes_of_elements(kind, block_elements);
}

std::int64_t Plan::largest_block_bytes() const {
  std::int64_t bytes = 0;
  for (const UnitPlan& unit : units) {
    for (const StateKind kind : kLastingKinds) {
      bytes = std::max(bytes, std::min(shard_bytes(unit, kind), block_bytes(kind)));
    }
  }
  return bytes;
}

int Plan::slots(const UnitPlan& unit, StateKind kind) const {
  if (durability == Durability::none || kind == StateKind::gradients) {
    return unit.tier(kind) == Tier::nvme ? 1 : 0;
  }
  return durability == Durability::commits && !unit.frozen ? 2 : 1;
}

std::int64_t Plan::checksum_bytes() const {
  const bool uses_storage =
      durability != Durability::none || stages_state() || activations == Tier::nvme;
  return uses_storage ? ExtentMap(*this).blocks() * kChecksumBytes : 0;
}

std::int64_t Plan::checkpoint_staging_bytes() const {
  if (durability == Durability::none) return 0;
  return commit_metadata_bytes() + kCommitBlocks * largest_block_bytes();
}

std::int64_t Plan::commit_metadata_bytes() const {
  if (durability == Durability::none) return 0;
  return store::CommitLog::staging_bytes(
      store::make_manifest(*this, std::vector<std::vector<store::Parameter>>(units.size())));
}

std::int64_t Plan::commit_copy_bytes() const {
  if (durability == Durability::none) return 0;
  std::int64_t bytes = 0;
  for (const UnitPlan& unit : units) {
    if (unit.frozen) continue;
    for (const StateKind kind : kLastingKinds) {
      if (unit.tier(kind) != Tier::nvme) bytes += shard_bytes(unit, kind);
    }
  }
  return bytes;
}

std::vector<std::uint8_t> Plan::gathered_units() const {
  std::vector<std::uint8_t> gathered;
  for (const UnitPlan& unit : units) {
    gathered.push_back(world_size > 1 || unit.tier(StateKind::weights) != Tier::device);
  }
  return gathered;
}

Traffic Plan::step_traffic() const {
  Traffic both = traffic[0].moved;
  both += traffic[1].moved;
  return both;
}

std::int64_t Plan::nvme_read_bytes() const { return step_traffic().bytes(Link::nvme_read); }

std::int64_t Plan::nvme_written_bytes() const { return step_traffic().bytes(Link::nvme_written); }

}  // namespace strata::offload

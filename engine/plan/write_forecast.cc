#include "engine/plan/write_forecast.h"

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"

namespace strata::engine {

using offload::Plan;
using offload::StateKind;
using offload::Tier;

namespace {

std::int64_t initial_state_bytes(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const offload::UnitPlan& unit : plan.units) {
    for (const StateKind kind :
         {StateKind::weights, StateKind::remainder, StateKind::moment1, StateKind::moment2}) {
      if (unit.tier(kind) == Tier::nvme) bytes += plan.shard_bytes(unit, kind);
    }
  }
  return bytes;
}

// Records that the largest pass of an evaluation stores.
std::int64_t evaluation_pass_bytes(const RunSetup& setup) {
  const Plan& plan = setup.plan;
  if (plan.activations != Tier::nvme) return 0;
  const WalkShape shape = largest_walk(setup.shape, setup.index);
  const auto accesses =
      offload::schedule_records(record_walk(shape, WalkKind::evaluation).accesses,
                                record_count(shape), plan.record_slots, plan.record_lookahead());
  std::int64_t bytes = 0;
  for (const offload::ScheduledAccess& access : accesses) {
    const auto record = static_cast<std::size_t>(access.access.record);
    if (access.store) bytes += round_up(plan.record_bytes[record], kPageBytes);
  }
  return bytes;
}

}  // namespace

WriteForecast forecast_writes(const RunSetup& setup, std::int64_t validation_samples) {
  const BatchLayout& batch = setup.batch;
  const std::int64_t of_rank = ceil_div(validation_samples, batch.world_size);
  const std::int64_t passes = ceil_div(of_rank, batch.pass_micro_batches_max() * batch.micro_batch);
  return {initial_state_bytes(setup.plan), setup.plan.nvme_written_bytes(),
          passes * evaluation_pass_bytes(setup)};
}

}  // namespace strata::engine

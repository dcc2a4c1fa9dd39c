#include "engine/plan/write_forecast.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/options/count_text.h"
#include "engine/options/endurance.h"
#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"

namespace strata::engine {

using offload::Plan;
using offload::StateKind;
using offload::Tier;

namespace {

// A frozen shard is written once, wherever it lives: with the first commit.
std::int64_t initial_state_bytes(const Plan& plan) {
  const bool durable = plan.durability != offload::Durability::none;
  std::int64_t bytes = 0;
  for (const offload::UnitPlan& unit : plan.units) {
    for (const StateKind kind : offload::kLastingKinds) {
      const bool written = unit.tier(kind) == Tier::nvme || (durable && unit.frozen);
      if (written) bytes += plan.shard_bytes(unit, kind);
    }
  }
  return bytes;
}

// ", 2 GiB in each of 12 checkpoints". Nobody knows how many there will be by time.
std::string commits_text(const WriteForecast& forecast, std::int64_t steps) {
  if (forecast.commit_bytes == 0) return "";
  const std::string bytes = format_bytes(forecast.commit_bytes);
  if (forecast.interval.never()) return fmt::format(", {} at the end", bytes);
  if (forecast.interval.steps == 0) {
    return fmt::format(", {} in the last checkpoint and as much in any before it", bytes);
  }
  return fmt::format(", {} in each of {}", bytes,
                     count_text(forecast.commits(steps), "checkpoint"));
}

// Records that the largest pass of an evaluation stores.
std::int64_t evaluation_pass_bytes(const RunSetup& setup) {
  const Plan& plan = setup.plan;
  if (plan.activations != Tier::nvme) return 0;
  const WalkShape shape = largest_walk(setup.shape, setup.index);
  const auto accesses = offload::schedule_records(record_walk(shape, WalkKind::evaluation).accesses,
                                                  plan.record_slots, plan.record_lookahead());
  std::int64_t bytes = 0;
  for (const offload::ScheduledAccess& access : accesses) {
    const auto record = static_cast<std::size_t>(access.access.record);
    if (access.store) bytes += round_up(plan.record_bytes[record], kPageBytes);
  }
  return bytes;
}

}  // namespace

// A small store is gone over several times.
std::int64_t measuring_bytes(std::int64_t capacity_bytes) {
  return std::min(256 * kMiB, 4 * capacity_bytes);
}

std::int64_t WriteForecast::commits(std::int64_t steps) const {
  if (commit_bytes == 0) return 0;
  return interval.steps > 0 ? std::max<std::int64_t>(1, ceil_div(steps, interval.steps)) : 1;
}

WriteForecast forecast_writes(const RunSetup& setup, std::int64_t validation_samples) {
  const BatchLayout& batch = setup.batch;
  const std::int64_t of_rank = ceil_div(validation_samples, batch.world_size);
  const std::int64_t passes = ceil_div(of_rank, batch.pass_micro_batches_max() * batch.micro_batch);
  const Plan& plan = setup.plan;
  return {initial_state_bytes(plan) + measuring_bytes(plan.total_bytes(Tier::nvme)),
          plan.nvme_written_bytes(), passes * evaluation_pass_bytes(setup),
          plan.commit_copy_bytes() + plan.commit_metadata_bytes(),
          setup.options.checkpoint_every.value_or(kDefaultCheckpointInterval)};
}

std::string forecast_text(const WriteForecast& forecast, std::int64_t steps,
                          std::int64_t evaluations, int ranks, std::span<const DriveLife> drives) {
  const std::int64_t total_bytes = forecast.total_bytes(steps, evaluations);
  std::string text = fmt::format("{} to NVMe in all{}: {} at the start, {} in each of {}",
                                 format_bytes(total_bytes), ranks > 1 ? " by each rank" : "",
                                 format_bytes(forecast.start_bytes),
                                 format_bytes(forecast.step_bytes), count_text(steps, "step"));
  if (forecast.evaluation_bytes > 0) {
    text += fmt::format(", {} in each of {}", format_bytes(forecast.evaluation_bytes),
                        count_text(evaluations, "evaluation"));
  }
  text += commits_text(forecast, steps);
  for (const DriveLife& drive : drives) {
    if (drive.endurance_bytes == 0) continue;
    text += fmt::format("\n{} of the life of {} ({})",
                        life_share_text(drive.used(static_cast<double>(total_bytes), ranks)),
                        drive.path, endurance_text(drive.endurance_bytes));
  }
  return text;
}

}  // namespace strata::engine

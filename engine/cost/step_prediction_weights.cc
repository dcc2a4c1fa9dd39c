#include "engine/cost/step_prediction_weights.h"

#include <algorithm>

namespace strata::engine {

using offload::ScheduledUse;
using offload::StateKind;
using offload::Tier;

PredictedWeights::PredictedWeights(const RunSetup& setup, PredictedMachine& machine, Lane& main,
                                   Lane& compute)
    : plan_(setup.plan),
      machine_(machine),
      main_(main),
      compute_(compute),
      staging_(static_cast<std::size_t>(plan_.weight_staging_slots)),
      slots_(static_cast<std::size_t>(plan_.weight_slots)),
      written_(plan_.units.size(), Fluid::kBeginning) {}

double PredictedWeights::shard_bytes(int index) const {
  return static_cast<double>(plan_.shard_bytes(unit(index), StateKind::weights));
}

bool PredictedWeights::reads_nvme(const ScheduledUse& use) const {
  return !use.hit && unit(use.unit).tier(StateKind::weights) == Tier::nvme;
}

void PredictedWeights::begin(std::span<const ScheduledUse> uses, PredictedOptimizer* updates) {
  uses_.assign(uses.begin(), uses.end());
  updates_ = updates;
  progress_.assign(uses.size(), {});
  acquired_ = 0;
  fetched_ = 0;
  plan_reads();
  machine_.wait(fetch_, {main_.last});
}

// Reads start `prefetch` uses ahead, but not before an earlier use that updates the unit, nor
// before other reads.
void PredictedWeights::plan_reads() {
  std::size_t taken = 0;
  std::size_t issued_at = 0;
  for (std::size_t use = 0; use < uses_.size(); ++use) {
    if (!reads_nvme(uses_[use])) continue;
    const std::size_t earliest = use - std::min(use, prefetch());
    issued_at = std::max(issued_at, earliest);
    for (std::size_t earlier = earliest; earlier < use && pending(uses_[use].unit); ++earlier) {
      if (uses_[earlier].unit == uses_[use].unit) issued_at = std::max(issued_at, earlier + 1);
    }
    progress_[use].issued_at = issued_at;
    progress_[use].staging = static_cast<int>(taken++ % staging_.size());
  }
}

void PredictedWeights::acquire() {
  const std::size_t use = acquired_++;
  progress_[use].acquired = main_.last;
  for (; fetched_ < uses_.size() && fetched_ <= use + prefetch(); ++fetched_) fetch(fetched_);
  machine_.wait(main_, {progress_[use].fetched});
  const int slot = uses_[use].slot;
  machine_.wait(compute_,
                {slot < 0 ? resident_.ready : slots_[static_cast<std::size_t>(slot)].ready});
}

void PredictedWeights::release() {
  const int slot = uses_[acquired_ - 1].slot;
  if (slot >= 0) slots_[static_cast<std::size_t>(slot)].free = compute_.last;
}

// The fetch thread waits until main is near enough, and for the staging buffers of the reads that
// it then starts.
void PredictedWeights::begin_fetch(std::size_t use) {
  if (use >= prefetch()) machine_.wait(fetch_, {progress_[use - prefetch()].acquired});
  for (std::size_t next = use; next < uses_.size() && next <= use + prefetch(); ++next) {
    const Use& read = progress_[next];
    if (read.staging < 0 || read.issued_at != use) continue;
    const Staging& staging = staging_[static_cast<std::size_t>(read.staging)];
    machine_.wait(fetch_, {staging.copied, staging.written,
                           written_[static_cast<std::size_t>(uses_[next].unit)]});
  }
  progress_[use].begun = fetch_.last;
}

void PredictedWeights::fetch(std::size_t index) {
  const ScheduledUse& use = uses_[index];
  Use& progress = progress_[index];
  begin_fetch(index);
  Staging* const staging =
      progress.staging < 0 ? nullptr : &staging_[static_cast<std::size_t>(progress.staging)];
  if (staging != nullptr) {
    const Moment allowed =
        index >= prefetch() ? progress_[index - prefetch()].acquired : Fluid::kBeginning;
    const double bytes = shard_bytes(use.unit);
    machine_.check(fetch_, machine_.read(bytes, {progress_[progress.issued_at].begun, allowed}),
                   bytes);
  }
  const bool updates = pending(use.unit);
  if (updates) update(use.unit, staging);
  if (use.slot >= 0 && (updates || !use.hit)) gather(use);
  if (staging != nullptr) staging->copied = to_device_.last;
  progress.fetched = fetch_.last;
}

void PredictedWeights::update(int index, Staging* staging) {
  const Tier tier = unit(index).tier(StateKind::weights);
  const double bytes = shard_bytes(index);
  if (tier == Tier::device) {
    machine_.wait(to_device_, {fetch_.last});
    machine_.copy_from_device(to_device_, bytes);
    machine_.wait(fetch_, {to_device_.last});
  }
  updates_->apply(index, fetch_);
  if (tier == Tier::nvme) {
    staging->written = machine_.write(fetch_, bytes);
    written_[static_cast<std::size_t>(index)] = staging->written;
  } else if (tier == Tier::device) {
    machine_.wait(to_device_, {fetch_.last});
    machine_.copy_to_device(to_device_, bytes);
    resident_.ready = to_device_.last;
  }
}

void PredictedWeights::gather(const ScheduledUse& use) {
  Slot& slot = slots_[static_cast<std::size_t>(use.slot)];
  const double bytes = shard_bytes(use.unit);
  machine_.wait(to_device_, {fetch_.last, slot.free});
  if (unit(use.unit).tier(StateKind::weights) == Tier::device) {
    machine_.copy_on_device(to_device_, bytes);
  } else {
    machine_.copy_to_device(to_device_, bytes);
  }
  slot.ready = to_device_.last;
  if (plan_.world_size == 1) return;
  machine_.wait(gather_, {slot.ready});
  machine_.receive(gather_, bytes * (plan_.world_size - 1));
  slot.ready = gather_.last;
}

void PredictedWeights::end() { machine_.wait(main_, {fetch_.last}); }

void PredictedWeights::flush() {
  for (const Moment written : written_) machine_.wait(main_, {written});
  machine_.wait(main_, {to_device_.last});
}

}  // namespace strata::engine

#include "engine/cost/step_prediction_gradients.h"

#include "offload/plan_traffic.h"

namespace strata::engine {

using offload::Contribution;
using offload::StateKind;
using offload::Tier;
using offload::UnitPlan;

PredictedGradients::PredictedGradients(const RunSetup& setup, PredictedMachine& machine, Lane& main,
                                       Lane& compute, PredictedOptimizer& optimizer)
    : plan_(setup.plan), machine_(machine), main_(main), compute_(compute), optimizer_(optimizer) {
  for (std::size_t u = 0; u < plan_.units.size(); ++u) {
    const std::int64_t bytes = offload::device_gradient_bytes(setup.plan_input, plan_, u);
    device_bytes_.push_back(static_cast<double>(bytes) / plan_.passes /
                            setup.plan_input.units[u].gradient_contributions);
  }
  written_.fill(Fluid::kBeginning);
}

void PredictedGradients::open() {
  machine_.wait(main_, {slots_[slot_].taken});
  machine_.wait(compute_, {slots_[slot_].emptied});
}

void PredictedGradients::close(const Contribution& contribution) {
  if (!unit(contribution.unit).frozen) take_out(slots_[slot_], contribution);
  slot_ = (slot_ + 1) % slots_.size();
}

void PredictedGradients::take_out(Slot& slot, const Contribution& contribution) {
  machine_.wait(thread_, {main_.last});
  const bool stays = unit(contribution.unit).updated_on_device;
  const Moment partial = stays ? Fluid::kBeginning : land(contribution);
  const double bytes = 4.0 * static_cast<double>(unit(contribution.unit).shard_elements);
  Moment reduced = compute_.last;
  if (plan_.world_size > 1) {
    machine_.wait(reduce_, {thread_.last, compute_.last});
    machine_.receive(reduce_, bytes * (plan_.world_size - 1));
    reduced = reduce_.last;
  }
  machine_.wait(from_device_, {thread_.last, reduced});
  if (stays) {
    machine_.pass_over_on_device(from_device_,
                                 device_bytes_[static_cast<std::size_t>(contribution.unit)]);
  } else {
    machine_.copy_from_device(from_device_, bytes);
  }
  slot = {.taken = thread_.last, .emptied = from_device_.last};
  machine_.wait(thread_, {slot.emptied});
  if (!stays) landed(contribution, partial);
}

bool PredictedGradients::resident(const UnitPlan& unit) const {
  return unit.gradient_element_bytes == 4 && unit.tier(StateKind::gradients) == Tier::host;
}

// Finds a place for it. Returns when what earlier contributions left is back.
Moment PredictedGradients::land(const Contribution& contribution) {
  const UnitPlan& unit = this->unit(contribution.unit);
  const double bytes = 4.0 * static_cast<double>(unit.shard_elements);
  if (resident(unit) && contribution.first) return Fluid::kBeginning;
  staging_ = (staging_ + 1) % written_.size();
  machine_.wait(thread_, {written_[staging_]});
  if (contribution.first) return Fluid::kBeginning;
  switch (unit.tier(StateKind::gradients)) {
    case Tier::host:
      break;
    case Tier::nvme:
      for (const Moment written : written_) machine_.wait(thread_, {written});
      return machine_.read(bytes, {thread_.last});
    case Tier::device:
      machine_.wait(copies_, {thread_.last});
      machine_.copy_from_device(copies_, bytes);
      return copies_.last;
  }
  return Fluid::kBeginning;
}

void PredictedGradients::landed(const Contribution& contribution, Moment partial) {
  const UnitPlan& unit = this->unit(contribution.unit);
  const auto elements = static_cast<double>(unit.shard_elements);
  if (!contribution.first) {
    const bool checked = unit.tier(StateKind::gradients) == Tier::nvme;
    machine_.check(thread_, partial, checked ? 4 * elements : 0);
    machine_.pass_over(thread_, 12 * elements);  // two read, one written
  }
  if (!contribution.last) return keep(unit, 4 * elements);
  const bool rounds = plan_.dtypes.gradients == Dtype::bf16;
  if (rounds) machine_.pass_over(thread_, 6 * elements);
  const double final_bytes = elements * static_cast<double>(bytes_of(plan_.dtypes.gradients));
  machine_.pass_over(thread_, final_bytes);  // the norm
  if (plan_.update == offload::UpdateTime::deferred) {
    keep(unit, final_bytes);
  } else {
    optimizer_.apply(contribution.unit, thread_);
  }
}

void PredictedGradients::keep(const UnitPlan& unit, double bytes) {
  switch (unit.tier(StateKind::gradients)) {
    case Tier::nvme:
      written_[staging_] = machine_.write(thread_, bytes);
      break;
    case Tier::device:
      machine_.wait(copies_, {thread_.last});
      machine_.copy_to_device(copies_, bytes);
      machine_.wait(thread_, {copies_.last});
      break;
    case Tier::host:
      if (!resident(unit)) machine_.copy_in_host(thread_, bytes);
      break;
  }
}

void PredictedGradients::finish() {
  machine_.wait(main_, {thread_.last});
  for (const Moment written : written_) machine_.wait(main_, {written});
}

}  // namespace strata::engine

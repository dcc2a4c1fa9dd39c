#include "engine/cost/step_prediction_activations.h"

#include "kernels/base/aligned_buffer.h"
#include "kernels/base/bytes.h"

namespace strata::engine {

using offload::ScheduledAccess;

PredictedActivations::PredictedActivations(const RunSetup& setup, PredictedMachine& machine,
                                           Lane& main, Lane& compute)
    : plan_(setup.plan),
      machine_(machine),
      main_(main),
      compute_(compute),
      slots_(static_cast<std::size_t>(plan_.record_slots.count())),
      stored_(plan_.record_bytes.size(), Fluid::kBeginning) {}

double PredictedActivations::bytes_of_record(const ScheduledAccess& access) const {
  return records_per_turn_ *
         static_cast<double>(round_up(
             plan_.record_bytes[static_cast<std::size_t>(access.access.record)], kPageBytes));
}

void PredictedActivations::begin(std::span<const ScheduledAccess> accesses,
                                 double records_per_turn) {
  records_per_turn_ = records_per_turn;
  accesses_.assign(accesses.begin(), accesses.end());
  dealt_with_.assign(accesses.size(), Fluid::kBeginning);
  opened_ = 0;
  closed_ = 0;
  loaded_ = 0;
  machine_.wait(loader_, {main_.last});
}

void PredictedActivations::open_turn() {
  if (accesses_.empty()) return;
  const int turn = accesses_[opened_].access.turn;
  load_until(turn + plan_.record_lookahead());
  for (; opened_ < accesses_.size() && accesses_[opened_].access.turn == turn; ++opened_) {
    machine_.wait(main_, {dealt_with_[opened_]});
    machine_.wait(compute_, {slot_of(accesses_[opened_]).loaded});
  }
}

void PredictedActivations::end_turn() {
  for (; closed_ < opened_; ++closed_) {
    const ScheduledAccess& access = accesses_[closed_];
    slot_of(access).released = compute_.last;
    if (access.store) store(access);
  }
}

void PredictedActivations::end() { machine_.wait(main_, {loader_.last, storer_.last}); }

// What the loader may deal with now that main is where it is.
void PredictedActivations::load_until(int turn) {
  machine_.wait(loader_, {main_.last});
  for (; loaded_ < accesses_.size() && accesses_[loaded_].access.turn <= turn; ++loaded_) {
    const ScheduledAccess& access = accesses_[loaded_];
    if (access.load || access.access.write) {
      machine_.wait(loader_, {slot_of(access).stored, stored(access)});
    }
    if (access.load) load(access);
    dealt_with_[loaded_] = loader_.last;
  }
}

void PredictedActivations::load(const ScheduledAccess& access) {
  Slot& slot = slot_of(access);
  const double bytes = bytes_of_record(access);
  if (on_nvme()) {
    machine_.wait(loader_, {slot.loaded});
    machine_.check(loader_, machine_.read(bytes, {loader_.last}), bytes);
  }
  machine_.wait(in_, {loader_.last, slot.released});
  machine_.copy_to_device(in_, bytes);
  slot.loaded = in_.last;
}

void PredictedActivations::store(const ScheduledAccess& access) {
  Slot& slot = slot_of(access);
  const double bytes = bytes_of_record(access);
  machine_.wait(storer_, {main_.last});
  if (on_nvme()) machine_.wait(storer_, {slot.loaded});
  machine_.wait(out_, {storer_.last, slot.released});
  machine_.copy_from_device(out_, bytes);
  machine_.wait(storer_, {out_.last});
  if (on_nvme()) machine_.wait(storer_, {machine_.write(storer_, bytes)});
  slot.stored = storer_.last;
  stored(access) = storer_.last;
}

}  // namespace strata::engine

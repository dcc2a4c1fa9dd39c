// PredictedActivations: the schedule of ActivationStore (offload/activation_store.h): records
// loaded a turn ahead of compute and stored behind it.
#pragma once

#include <span>
#include <vector>

#include "engine/cost/step_prediction_machine.h"
#include "engine/plan/run_setup.h"

namespace strata::engine {

class PredictedActivations {
 public:
  PredictedActivations(const RunSetup& setup, PredictedMachine& machine, Lane& main, Lane& compute);

  // Starts a walk; `accesses` is empty where records stay on the device.
  // `records_per_turn`: how many those of a turn stand for.
  void begin(std::span<const offload::ScheduledAccess> accesses, double records_per_turn);
  // Opens all records of the next turn.
  void open_turn();
  void end_turn();
  void end();

 private:
  struct Slot {
    Moment loaded = Fluid::kBeginning;
    Moment released = Fluid::kBeginning;
    Moment stored = Fluid::kBeginning;
  };
  void load_until(int turn);
  void load(const offload::ScheduledAccess& access);
  void store(const offload::ScheduledAccess& access);
  Slot& slot_of(const offload::ScheduledAccess& access) {
    return slots_[static_cast<std::size_t>(access.slot)];
  }
  Moment& stored(const offload::ScheduledAccess& access) {
    return stored_[static_cast<std::size_t>(access.access.record)];
  }
  double bytes_of_record(const offload::ScheduledAccess& access) const;
  bool on_nvme() const { return plan_.activations == offload::Tier::nvme; }

  const offload::Plan& plan_;
  PredictedMachine& machine_;
  Lane& main_;
  Lane& compute_;
  Lane loader_;
  Lane storer_;
  Lane in_;
  Lane out_;
  std::vector<Slot> slots_;
  std::vector<Moment> stored_;  // per record
  double records_per_turn_ = 1;
  std::vector<offload::ScheduledAccess> accesses_;
  std::vector<Moment> dealt_with_;  // per access, by the loader
  std::size_t opened_ = 0;
  std::size_t closed_ = 0;
  std::size_t loaded_ = 0;
};

}  // namespace strata::engine

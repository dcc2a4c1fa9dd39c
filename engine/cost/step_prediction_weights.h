// PredictedWeights: the schedule of WeightStreamer (offload/weight_streamer.h): reads of weights
// into staging buffers, pending updates on the fetch thread, copies and all-gathers into slots.
#pragma once

#include <span>
#include <vector>

#include "engine/cost/step_prediction_machine.h"
#include "engine/cost/step_prediction_optimizer.h"
#include "engine/plan/run_setup.h"

namespace strata::engine {

class PredictedWeights {
 public:
  // `main` acquires, `compute` uses the weights.
  PredictedWeights(const RunSetup& setup, PredictedMachine& machine, Lane& main, Lane& compute);

  // Starts a sequence; `updates` may be null.
  void begin(std::span<const offload::ScheduledUse> uses, PredictedOptimizer* updates);
  // The next use; it ends with the next release().
  void acquire();
  void release();
  void end();
  void flush();

 private:
  struct Staging {
    Moment copied = Fluid::kBeginning;
    Moment written = Fluid::kBeginning;
  };
  struct Slot {
    Moment ready = Fluid::kBeginning;
    Moment free = Fluid::kBeginning;
  };
  // Of a sequence's uses.
  struct Use {
    int staging = -1;                     // none: its weights are not read
    std::size_t issued_at = 0;            // the use at which the fetch thread starts the read
    Moment acquired = Fluid::kBeginning;  // when main asked for it
    Moment begun = Fluid::kBeginning;     // when the fetch thread has started its reads
    Moment fetched = Fluid::kBeginning;
  };

  void plan_reads();
  void begin_fetch(std::size_t use);
  void fetch(std::size_t use);
  void update(int unit, Staging* staging);
  void gather(const offload::ScheduledUse& use);
  bool reads_nvme(const offload::ScheduledUse& use) const;
  bool pending(int unit) const { return updates_ != nullptr && updates_->pending(unit); }
  const offload::UnitPlan& unit(int index) const {
    return plan_.units[static_cast<std::size_t>(index)];
  }
  double shard_bytes(int unit) const;
  std::size_t prefetch() const { return static_cast<std::size_t>(plan_.prefetch); }

  const offload::Plan& plan_;
  PredictedMachine& machine_;
  Lane& main_;
  Lane& compute_;
  Lane fetch_;
  Lane to_device_;
  Lane gather_;
  std::vector<Staging> staging_;
  std::vector<Slot> slots_;
  Slot resident_;                // of weights that live on the device
  std::vector<Moment> written_;  // per unit: its updated weights are on the drive
  std::vector<offload::ScheduledUse> uses_;
  std::vector<Use> progress_;  // per use
  PredictedOptimizer* updates_ = nullptr;
  Moment begun_ = Fluid::kBeginning;
  std::size_t acquired_ = 0;
  std::size_t fetched_ = 0;
};

}  // namespace strata::engine

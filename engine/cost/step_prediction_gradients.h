// PredictedGradients: the schedule of GradientSink (offload/gradient_sink.h) and GradientStore
// (engine/step/gradient_store.h): slots that backward fills, their way to the host, sums of
// contributions, and what happens to final gradients.
#pragma once

#include <array>
#include <vector>

#include "engine/cost/step_prediction_machine.h"
#include "engine/cost/step_prediction_optimizer.h"
#include "engine/plan/run_setup.h"
#include "offload/gradient_sink.h"

namespace strata::engine {

class PredictedGradients {
 public:
  // `optimizer` updates in backward, where the plan does.
  PredictedGradients(const RunSetup& setup, PredictedMachine& machine, Lane& main, Lane& compute,
                     PredictedOptimizer& optimizer);

  void open();
  void close(const offload::Contribution& contribution);
  // Main waits until every gradient is on its tier.
  void finish();

 private:
  struct Slot {
    Moment taken = Fluid::kBeginning;  // the thread has started to empty it
    Moment emptied = Fluid::kBeginning;
  };
  void take_out(Slot& slot, const offload::Contribution& contribution);
  Moment land(const offload::Contribution& contribution);
  void landed(const offload::Contribution& contribution, Moment partial);
  void keep(const offload::UnitPlan& unit, double bytes);
  bool resident(const offload::UnitPlan& unit) const;
  const offload::UnitPlan& unit(int index) const {
    return plan_.units[static_cast<std::size_t>(index)];
  }

  const offload::Plan& plan_;
  PredictedMachine& machine_;
  Lane& main_;
  Lane& compute_;
  PredictedOptimizer& optimizer_;
  Lane thread_;
  Lane reduce_;
  Lane from_device_;
  Lane copies_;  // of gradients that live on the device
  // Per unit: what a contribution costs a GPU that updates it, on average.
  std::vector<double> device_bytes_;
  std::array<Slot, offload::kGradientSlots> slots_;
  std::array<Moment, offload::kGradientStagingSlots> written_;  // per staging buffer
  std::size_t slot_ = 0;
  std::size_t staging_ = 0;
};

}  // namespace strata::engine

// StepPrediction: how long a step will take, by running the plan's schedule against a machine's
// rates: the same units, records, chunks, slots and staging buffers, in the same order, with
// resources that are shared by what uses them at a moment. Where the bound (step_cost.h) says what
// no program could beat, this says what ours will do, with what is left waiting.
//
// Each part of the data path has its schedule in a file beside this one (step_prediction_*.h),
// which names the class that it follows: who changes the one changes the other. What is left out:
// the latency of a request, the time to start a thread or an op, collectives but for what they
// receive, commits, evaluations. Ranks are taken to be alike.
//
// Pure function; a millisecond or so for each thousand transfers of a step.
#pragma once

#include <array>

#include "engine/cost/compute_cost.h"
#include "engine/cost/machine_rates.h"
#include "engine/cost/step_cost.h"
#include "engine/plan/run_setup.h"

namespace strata::engine {

struct StepPrediction {
  double step_s = 0;                                // of a step in the middle of a run
  std::array<double, offload::kPhases> phases_s{};  // of that; of all passes together
  std::array<double, kResources> busy_s{};          // of that
  double busy(Resource resource) const { return busy_s[static_cast<std::size_t>(resource)]; }
  double waiting(Resource resource) const { return step_s - busy(resource); }
  // The resource that is in use longest.
  Resource limit() const;
};

StepPrediction predict_step(const RunSetup& setup, const MachineRates& rates,
                            const ComputeCost& compute);

}  // namespace strata::engine

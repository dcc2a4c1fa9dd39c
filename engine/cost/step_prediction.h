// StepPrediction: how long a step will take, by running the plan's schedule against a machine's
// rates: the same units, records, chunks, slots and staging buffers, in the same order, with
// resources that are shared equally by what uses them at a moment. Where the bound (step_cost.h)
// says what no program could beat, this says what ours will do, with what is left waiting.
#pragma once

#include <array>

#include "engine/cost/compute_cost.h"
#include "engine/cost/machine_rates.h"
#include "engine/cost/step_cost.h"
#include "engine/plan/run_setup.h"

namespace strata::engine {

struct StepPrediction {
  double step_s = 0;                        // of a step in the middle of a run
  std::array<double, kResources> busy_s{};  // of that
};

StepPrediction predict_step(const RunSetup& setup, const MachineRates& rates,
                            const ComputeCost& compute);

}  // namespace strata::engine

// The search for the plans whose steps are shortest, over a SearchSpace, by a model of what steps
// take. It reads the model and resolves what follows from the options once for each shape of a step
// (micro-batch, pass, recompute, formats); a candidate then costs a plan, tens of microseconds.
//
//   1. Every placement, tier of activations and division of memory, of every shape, with the first
//      depth of prefetch and, where that does not fit, the next lower one that does. What does not
//      fit memory or NVMe is dropped. Of plans that put the same tenths of each kind of state on
//      the same tiers, the one with the lowest bound is kept.
//   2. In the order of their bounds, their steps are predicted. Of plans of one outline (most of
//      each kind of state on the same tier) the best is kept, so that those shown differ. It ends
//      when the next bound is above the slowest prediction that is kept: no step is shorter than
//      its bound, so nothing that is left could be kept. As a safety net it ends after 300
//      predictions, too.
//   3. The best of those try every depth of prefetch and every chunk size, for what makes a step
//      shorter by more than half a percent.
//   4. Free budgets are cut down to what each plan takes, its step is predicted again, as it is
//      shown, and the plans are ranked by that. Of plans that differ in nothing that is shown (step
//      to half a percent, NVMe traffic, MiB of memory) the first stays.
//
// Ranking: of the plans whose steps take as long as the shortest one left, to half a percent, that
// comes next which writes least to NVMe, then that which takes least memory. Deterministic.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/cost/step_cost.h"
#include "engine/cost/step_prediction.h"
#include "engine/plan/run_setup.h"
#include "engine/tune/search_space.h"

namespace strata::engine {

// What a step takes, of a setup with a plan.
struct StepModel {
  std::function<StepCost(const RunSetup&)> cost;
  std::function<StepPrediction(const RunSetup&)> predict;
};

struct RankedPlan {
  Options options;  // with budgets; those of the user are cut down to what the plan takes if free
  RunSetup setup;   // with its plan
  StepCost cost;
  StepPrediction prediction;
};

// The best `count`, best first; fewer where there are not so many. Throws PlanDoesNotFit where
// nothing fits, and ConfigError.
std::vector<RankedPlan> search_plans(const SearchSpace& space, const SearchPlace& place,
                                     const StepModel& model, int count);

// Of the micro-batches, those that some plan of the space has, each as a setup with such a plan
// that recomputes; what step models are measured for. Throws as search_plans().
std::vector<RunSetup> feasible_micro_batches(const SearchSpace& space, const SearchPlace& place);

// Of some plan of the space with these formats of state, such a setup; nothing: none fits. Throws
// ConfigError.
std::optional<RunSetup> feasible_formats(const SearchSpace& space, const SearchPlace& place,
                                         const std::string& moments, const std::string& grad_dtype);

}  // namespace strata::engine

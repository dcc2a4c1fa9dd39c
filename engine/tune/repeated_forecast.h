// RepeatedForecast: what is forecast of plans by the machine's rates as they were measured at
// several times, in the mean.
#pragma once

#include <span>
#include <vector>

#include "engine/tune/plan_search.h"

namespace strata::engine {

class RepeatedForecast {
 public:
  // The plans, which outlive it, hold the first forecast.
  explicit RepeatedForecast(std::span<RankedPlan> plans);

  // Makes what is forecast of the plans, the bound too, the mean of all times, of which this is one
  // more.
  void add(const StepModel& model);

  int times() const { return times_; }
  // By what part the longest and the shortest prediction of a step differ; of the plan where that
  // is most.
  double spread() const;

 private:
  struct Range {
    double least;
    double most;
  };
  std::span<RankedPlan> plans_;
  std::vector<Range> step_s_;
  int times_ = 1;
};

}  // namespace strata::engine

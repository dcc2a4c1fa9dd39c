// RepeatedForecast: what is forecast of plans by the machine's rates as they were measured at
// several times: the median, as of the steps that it is compared with.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/tune/plan_search.h"

namespace strata::engine {

class RepeatedForecast {
 public:
  // The plans, which outlive it, hold the first forecast.
  explicit RepeatedForecast(std::span<RankedPlan> plans);

  void add(const StepModel& model);
  std::size_t times() const { return forecasts_.front().size(); }

  // By what part the longest and the shortest prediction differ; of the plan where that is most.
  double spread() const;

  // Of each plan, as take_median() would give it.
  std::vector<double> medians_s();
  // Gives each plan the forecast, and the bound that belongs to it, whose step is the median of all
  // times; of two in the middle the shorter one.
  void take_median();

 private:
  struct Forecast {
    StepPrediction prediction;
    StepCost cost;
  };
  static double predicted_s(const Forecast& forecast) { return forecast.prediction.step_s; }
  static const Forecast& median(std::vector<Forecast>& times);

  std::span<RankedPlan> plans_;
  std::vector<std::vector<Forecast>> forecasts_;  // of each plan, one for each time
};

}  // namespace strata::engine

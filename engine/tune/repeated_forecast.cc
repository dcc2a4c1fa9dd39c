#include "engine/tune/repeated_forecast.h"

#include <algorithm>

namespace strata::engine {

RepeatedForecast::RepeatedForecast(std::span<RankedPlan> plans) : plans_(plans) {
  for (const RankedPlan& plan : plans) forecasts_.push_back({{plan.prediction, plan.cost}});
}

void RepeatedForecast::add(const StepModel& model) {
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    forecasts_[i].push_back({model.predict(plans_[i].setup), model.cost(plans_[i].setup)});
  }
}

double RepeatedForecast::take_median() {
  double spread = 0;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    std::vector<Forecast>& times = forecasts_[i];
    std::ranges::sort(times, {}, [](const Forecast& each) { return each.prediction.step_s; });
    const Forecast& median = times[(times.size() - 1) / 2];
    plans_[i].prediction = median.prediction;
    plans_[i].cost = median.cost;
    spread = std::max(spread, times.back().prediction.step_s / times.front().prediction.step_s - 1);
  }
  return spread;
}

}  // namespace strata::engine

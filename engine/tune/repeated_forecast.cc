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

double RepeatedForecast::spread() const {
  double widest = 0;
  for (const std::vector<Forecast>& times : forecasts_) {
    const auto [least, most] = std::ranges::minmax_element(times, {}, predicted_s);
    widest = std::max(widest, predicted_s(*most) / predicted_s(*least) - 1);
  }
  return widest;
}

const RepeatedForecast::Forecast& RepeatedForecast::median(std::vector<Forecast>& times) {
  const auto middle = times.begin() + (std::ssize(times) - 1) / 2;
  std::ranges::nth_element(times, middle, {}, predicted_s);
  return *middle;
}

std::vector<double> RepeatedForecast::medians_s() {
  std::vector<double> medians;
  for (std::vector<Forecast>& times : forecasts_) medians.push_back(predicted_s(median(times)));
  return medians;
}

void RepeatedForecast::take_median() {
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const Forecast& taken = median(forecasts_[i]);
    plans_[i].prediction = taken.prediction;
    plans_[i].cost = taken.cost;
  }
}

}  // namespace strata::engine

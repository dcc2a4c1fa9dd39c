#include "engine/tune/repeated_forecast.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace strata::engine {

namespace {

// `mean`: of as many numbers, with `number` among them.
void add_to(double& mean, double number, int count) { mean += (number - mean) / count; }

template <std::size_t kCount>
void add_to(std::array<double, kCount>& mean, const std::array<double, kCount>& numbers,
            int count) {
  for (std::size_t i = 0; i < kCount; ++i) add_to(mean[i], numbers[i], count);
}

void add_to(StepCost& mean, const StepCost& cost, int count) {
  for (std::size_t p = 0; p < mean.phases.size(); ++p) {
    add_to(mean.phases[p].seconds, cost.phases[p].seconds, count);
    add_to(mean.phases[p].cores, cost.phases[p].cores, count);
  }
  add_to(mean.moved_s, cost.moved_s, count);
}

void add_to(StepPrediction& mean, const StepPrediction& prediction, int count) {
  add_to(mean.step_s, prediction.step_s, count);
  add_to(mean.phases_s, prediction.phases_s, count);
  add_to(mean.busy_s, prediction.busy_s, count);
}

}  // namespace

RepeatedForecast::RepeatedForecast(std::span<RankedPlan> plans) : plans_(plans) {
  for (const RankedPlan& plan : plans) {
    step_s_.push_back({plan.prediction.step_s, plan.prediction.step_s});
  }
}

void RepeatedForecast::add(const StepModel& model) {
  ++times_;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    RankedPlan& plan = plans_[i];
    const StepPrediction prediction = model.predict(plan.setup);
    step_s_[i].least = std::min(step_s_[i].least, prediction.step_s);
    step_s_[i].most = std::max(step_s_[i].most, prediction.step_s);
    add_to(plan.prediction, prediction, times_);
    add_to(plan.cost, model.cost(plan.setup), times_);
  }
}

double RepeatedForecast::spread() const {
  double spread = 0;
  for (const Range& range : step_s_) spread = std::max(spread, range.most / range.least - 1);
  return spread;
}

}  // namespace strata::engine

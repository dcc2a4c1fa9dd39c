#include "engine/tune/repeated_forecast.h"

#include <algorithm>
#include <cmath>

namespace strata::engine {

namespace {

void take_mean(double& one, double other) { one = (one + other) / 2; }

template <std::size_t kCount>
void take_mean(std::array<double, kCount>& one, const std::array<double, kCount>& other) {
  for (std::size_t i = 0; i < kCount; ++i) take_mean(one[i], other[i]);
}

void take_mean(StepCost& one, const StepCost& other) {
  for (std::size_t p = 0; p < one.phases.size(); ++p) {
    take_mean(one.phases[p].seconds, other.phases[p].seconds);
    take_mean(one.phases[p].cores, other.phases[p].cores);
  }
  take_mean(one.moved_s, other.moved_s);
}

void take_mean(StepPrediction& one, const StepPrediction& other) {
  take_mean(one.step_s, other.step_s);
  take_mean(one.phases_s, other.phases_s);
  take_mean(one.busy_s, other.busy_s);
}

}  // namespace

double take_mean(std::span<RankedPlan> plans, const StepModel& again) {
  double difference = 0;
  for (RankedPlan& plan : plans) {
    const StepPrediction other = again.predict(plan.setup);
    difference = std::max(difference, std::abs(other.step_s / plan.prediction.step_s - 1));
    take_mean(plan.prediction, other);
    take_mean(plan.cost, again.cost(plan.setup));
  }
  return difference;
}

}  // namespace strata::engine

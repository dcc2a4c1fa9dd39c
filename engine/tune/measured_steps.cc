#include "engine/tune/measured_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace strata::engine {

namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

void MeasuredSteps::add_run(std::span<const double> steps_s) {
  step_s.insert(step_s.end(), steps_s.begin(), steps_s.end());
  run_s.push_back(median({steps_s.begin(), steps_s.end()}));
}

double MeasuredSteps::median_s() const { return median(step_s); }

double MeasuredSteps::spread() const {
  if (run_s.empty()) return 0;
  const auto [least, most] = std::ranges::minmax(run_s);
  return most / least - 1;
}

double widest_spread(std::span<const MeasuredSteps> plans) {
  double widest = 0;
  for (const MeasuredSteps& plan : plans) widest = std::max(widest, plan.spread());
  return widest;
}

double largest_change(std::span<const double> before, std::span<const double> now) {
  if (before.empty()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] > 0 && now[i] > 0) largest = std::max(largest, std::abs(now[i] / before[i] - 1));
  }
  return largest;
}

bool enough_rounds(int rounds, std::span<const MeasuredSteps> plans, double change) {
  constexpr double kSteady = 0.03;
  constexpr double kLongSeconds = 30;
  if (rounds < kRoundsMin) return false;
  if (rounds >= kRoundsMax || change <= kSteady) return true;
  return std::ranges::any_of(plans, [](const MeasuredSteps& plan) {
    return std::accumulate(plan.step_s.begin(), plan.step_s.end(), 0.0) >= kLongSeconds;
  });
}

}  // namespace strata::engine

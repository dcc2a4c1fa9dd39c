#include "engine/profile/kept_steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace strata::engine {
namespace {

constexpr double kShortestNs = 1e3;
const double kLogWidth = std::log(1.01);

double log_distance(double a, double b) { return std::abs(std::log(a / b)); }

void keep(KeptStep& kept, const StepProfile& profile, const std::vector<Tracer::Span>& spans) {
  kept.profile = profile;
  kept.spans = spans;
}

}  // namespace

// The middle of its bin.
double KeptSteps::median_ns() const {
  const std::int64_t half = std::accumulate(bins_.begin(), bins_.end(), std::int64_t{0}) / 2;
  std::int64_t below = 0;
  const auto bin = std::find_if(bins_.begin(), bins_.end(),
                                [&](std::int64_t steps) { return (below += steps) > half; });
  return kShortestNs * std::exp(kLogWidth * (static_cast<double>(bin - bins_.begin()) + 0.5));
}

void KeptSteps::add(const StepProfile& profile, const std::vector<Tracer::Span>& spans) {
  if (++added_ == 1) {
    keep(slowest_, profile, spans);
    keep(median_, profile, spans);
    return;
  }
  const auto wall_ns = std::max(static_cast<double>(profile.wall_ns), kShortestNs);
  const auto bin = static_cast<int>(std::log(wall_ns / kShortestNs) / kLogWidth);
  ++bins_[static_cast<std::size_t>(std::min(bin, kBins - 1))];
  if (added_ == 2 || profile.wall_ns > slowest_.profile.wall_ns) keep(slowest_, profile, spans);
  const double median = median_ns();
  if (added_ == 2 || log_distance(wall_ns, median) <
                         log_distance(static_cast<double>(median_.profile.wall_ns), median)) {
    keep(median_, profile, spans);
  }
}

}  // namespace strata::engine

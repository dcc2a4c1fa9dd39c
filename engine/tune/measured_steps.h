// MeasuredSteps: what training with plans took, in runs that take turns, and when that is enough.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace strata::engine {

// Of one plan.
struct MeasuredSteps {
  std::vector<double> step_s;         // of every step that is counted, in all runs
  std::vector<double> run_s;          // the median of each run
  std::vector<std::string> failures;  // one line for each time that it ended in an error

  void add_run(std::span<const double> steps_s);
  double median_s() const;  // 0: none
  // By what part the longest and the shortest run differ.
  double spread() const;
};

// Of the plan whose runs differ most.
double widest_spread(std::span<const MeasuredSteps> plans);

// By what part a value changed, of the one that did most; infinite without any before. Values that
// were or are 0, for want of steps, do not count.
double largest_change(std::span<const double> before, std::span<const double> now);

inline constexpr int kRoundsMin = 2;
inline constexpr int kRoundsMax = 6;

// Whether so many rounds of runs are enough. `change`: of the medians of steps, and of what is
// forecast of them, by the last round. Where it moved one by more than 3 %, medians of a few
// moments would be compared, and another round follows; unless some plan has trained for half a
// minute, which is a mean over a noisy machine by itself.
bool enough_rounds(int rounds, std::span<const MeasuredSteps> plans, double change);

}  // namespace strata::engine

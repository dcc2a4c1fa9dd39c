// Repeats: when something has been run often enough for its fastest run to be as fast as it gets:
// a few times and for some time; at least twice, however long that takes, and no more than
// `runs_max` times, however short it is.
#pragma once

#include <algorithm>

namespace strata::engine {

class Repeats {
 public:
  explicit Repeats(int runs_max) : runs_max_(runs_max) {}

  bool enough() const {
    if (runs_ < kRunsMin) return false;
    return runs_ >= runs_max_ || spent_s_ >= kLongSeconds ||
           (runs_ >= kFewRuns && spent_s_ >= kEnoughSeconds);
  }
  void ran(double seconds, int runs = 1) {
    runs_ += runs;
    spent_s_ += seconds;
  }

 private:
  static constexpr int kRunsMin = 2;
  static constexpr int kFewRuns = 5;
  static constexpr double kEnoughSeconds = 0.08;
  static constexpr double kLongSeconds = 0.3;

  int runs_max_;
  int runs_ = 0;
  double spent_s_ = 0;
};

}  // namespace strata::engine

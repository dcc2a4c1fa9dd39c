// StepDeadline: until when a step may go on once somebody wants the run to stop: as long as
// --stop-within says, and no longer than it takes to see that the step cannot end within that.
//
// The estimate of a step's end is its begin plus the median time of the recent steps, none before
// the first has ended. Pure: whoever uses it says what time it is. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>

namespace strata::engine {

class StepDeadline {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  explicit StepDeadline(Clock::duration stop_within) : stop_within_(stop_within) {}

  void step_begins(Time now) { begin_ = now; }
  void step_ended(Time now) {
    recent_[ended_++ % recent_.size()] = now - *begin_;
    begin_.reset();
  }
  bool in_step() const { return begin_.has_value(); }

  void ask(Time now) { asked_ = now; }

  // When whatever is under way is given up; has passed if the step would take too long. Empty
  // before ask().
  std::optional<Time> give_up_at() const {
    if (!asked_) return std::nullopt;
    const Time limit = *asked_ + stop_within_;
    const bool too_long = begin_ && ended_ > 0 && *begin_ + median() > limit;
    return too_long ? *asked_ : limit;
  }

 private:
  // The lower of two.
  Clock::duration median() const {
    auto sorted = recent_;
    const auto count = static_cast<std::ptrdiff_t>(std::min(ended_, sorted.size()));
    const auto middle = sorted.begin() + (count - 1) / 2;
    std::nth_element(sorted.begin(), middle, sorted.begin() + count);
    return *middle;
  }

  Clock::duration stop_within_;
  std::array<Clock::duration, 15> recent_{};
  std::size_t ended_ = 0;
  std::optional<Time> begin_;
  std::optional<Time> asked_;
};

}  // namespace strata::engine

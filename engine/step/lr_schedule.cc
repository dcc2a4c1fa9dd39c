#include "engine/step/lr_schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "engine/options/count_text.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

// The whole text as a number; false when it is not one.
template <typename Number>
[[nodiscard]] bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

// How far step is from `begin` (0 for the first step after it) to the end; 1 beyond the end.
double progress(std::int64_t step, std::int64_t begin, std::int64_t steps) {
  if (step > steps) return 1;
  return static_cast<double>(step - 1 - begin) / static_cast<double>(steps - begin);
}

}  // namespace

LrSchedule::LrSchedule(Shape shape, double lr, double min_lr, std::int64_t warmup_steps,
                       std::int64_t steps)
    : shape_(shape), peak_(lr), end_(min_lr), warmup_steps_(warmup_steps), steps_(steps) {
  STRATA_CHECK(steps >= 0 && warmup_steps >= 0);
  if (warmup_steps > steps) {
    throw_error<ConfigError>("--warmup of {} is longer than the run of {}",
                             count_text(warmup_steps, "step"), count_text(steps, "step"));
  }
  if (!(min_lr <= lr)) {
    throw_error<ConfigError>("--min-lr {} is above --lr {}; it is the rate the schedule ends at",
                             min_lr, lr);
  }
}

double LrSchedule::at(std::int64_t step) const {
  STRATA_CHECK(step >= 1, "steps count from 1, not {}", step);
  if (step <= warmup_steps_) {
    return peak_ * static_cast<double>(step) / static_cast<double>(warmup_steps_);
  }
  switch (shape_) {
    case Shape::constant:
      return peak_;
    case Shape::linear:
      return peak_ - (peak_ - end_) * progress(step, warmup_steps_, steps_);
    case Shape::cosine: {
      const double angle = std::numbers::pi * progress(step, warmup_steps_, steps_);
      return end_ + (peak_ - end_) * (1 + std::cos(angle)) / 2;
    }
    case Shape::wsd:
      break;
  }
  const std::int64_t decay_begin = std::max(warmup_steps_, steps_ * 4 / 5);
  if (step <= decay_begin) return peak_;
  return end_ + (peak_ - end_) * (1 - std::sqrt(progress(step, decay_begin, steps_)));
}

LrSchedule::Shape parse_lr_shape(std::string_view text) {
  if (text == "cosine") return LrSchedule::Shape::cosine;
  if (text == "linear") return LrSchedule::Shape::linear;
  if (text == "constant") return LrSchedule::Shape::constant;
  if (text == "wsd") return LrSchedule::Shape::wsd;
  throw_error<ConfigError>("--lr-schedule '{}' is not cosine, linear, constant or wsd", text);
}

std::int64_t parse_warmup(std::string_view text, std::int64_t steps) {
  if (text.ends_with('%')) {
    double percent = 0;
    if (parse_number(text.substr(0, text.size() - 1), percent) && percent >= 0 && percent <= 100) {
      return std::llround(percent / 100 * static_cast<double>(steps));
    }
  } else {
    std::int64_t warmup_steps = 0;
    if (parse_number(text, warmup_steps) && warmup_steps >= 0) return warmup_steps;
  }
  throw_error<ConfigError>("--warmup '{}' is neither a number of steps nor a percentage (3%)",
                           text);
}

}  // namespace strata::engine

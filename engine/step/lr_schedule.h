// The learning rate of each step: a pure function of the step's number, so nothing of it is saved.
//
// Steps count from 1. With W warmup steps, N steps in all, peak rate P and end rate E:
//   warmup    s <= W     P s / W
//   constant  s > W      P
//   cosine    s > W      E + (P - E) (1 + cos(pi p)) / 2,  p = (s - 1 - W) / (N - W)
//   linear    s > W      P - (P - E) p
//   wsd       s > W      P until the last fifth of the steps; in it, with D = floor(4 N / 5) or W,
//                        whichever is later: E + (P - E) (1 - sqrt q),  q = (s - 1 - D) / (N - D)
// p is 0 at the first step after warmup and would reach 1, the end rate, at step N + 1: the last
// step still learns when E is 0. Beyond step N the rate stays at E (constant: at P). Sources:
// llm.c's llmc/schedulers.h, which counts steps from 0; WSD with a 1 - sqrt cooldown: Hägele et al.
// 2024 (arXiv 2405.18392).
#pragma once

#include <cstdint>
#include <string_view>

namespace strata::engine {

class LrSchedule {
 public:
  enum class Shape : std::uint8_t { cosine, linear, constant, wsd };

  // Throws ConfigError when the warmup is longer than the run, or min_lr is above lr.
  LrSchedule(Shape shape, double lr, double min_lr, std::int64_t warmup_steps, std::int64_t steps);

  double at(std::int64_t step) const;

 private:
  Shape shape_;
  double peak_;
  double end_;
  std::int64_t warmup_steps_;
  std::int64_t steps_;
};

// The values of --lr-schedule. Throws ConfigError.
LrSchedule::Shape parse_lr_shape(std::string_view text);

// The values of --warmup: a number of steps, or "3%" of all steps, rounded to the nearest step.
// Throws ConfigError.
std::int64_t parse_warmup(std::string_view text, std::int64_t steps);

}  // namespace strata::engine

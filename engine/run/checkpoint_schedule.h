// CheckpointSchedule: after which steps a run commits (--checkpoint-every), decided alike on all
// ranks: from steps, and from requests that a step's collective has made known to all.
//
//   nothing due ──every N steps, or rank 0's clock, or SIGUSR2──▶ due ──committed()──▶ nothing due
#pragma once

#include <chrono>
#include <cstdint>

#include "engine/options/options.h"
#include "engine/step/update_gate.h"

namespace strata::engine {

class CheckpointSchedule {
 public:
  using Clock = std::chrono::steady_clock;

  CheckpointSchedule(CheckpointInterval interval, Clock::time_point now)
      : interval_(interval), last_(now) {}

  // For rank 0, before each step: whether it is time.
  bool is_time(Clock::time_point now) const {
    return interval_.seconds > 0 && now - last_ >= std::chrono::duration<double>(interval_.seconds);
  }

  // Whether the step that has ended is to be committed, or an earlier one was and has not been.
  bool is_due(std::int64_t step, std::uint32_t requests) {
    const bool by_step = interval_.steps > 0 && step % interval_.steps == 0;
    due_ = due_ || by_step || (requests & (kCommitRequest | kCheckpointTimeDue)) != 0;
    return due_;
  }

  void committed(Clock::time_point now) {
    due_ = false;
    last_ = now;
  }

 private:
  CheckpointInterval interval_;
  Clock::time_point last_;
  bool due_ = false;
};

}  // namespace strata::engine

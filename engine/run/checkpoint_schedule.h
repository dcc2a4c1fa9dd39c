// CheckpointSchedule: after which steps a run commits (--checkpoint-every, and for --export-every),
// decided alike on all ranks: from steps, and from requests that a step's collective has made known
// to all.
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

  // `export_every`: steps; 0: never for that.
  CheckpointSchedule(CheckpointInterval interval, std::int64_t export_every, Clock::time_point now)
      : interval_(interval), export_every_(export_every), last_(now) {}

  // For rank 0, before each step: whether it is time.
  bool is_time(Clock::time_point now) const {
    return interval_.seconds > 0 && now - last_ >= std::chrono::duration<double>(interval_.seconds);
  }

  // Whether the step that has ended is to be committed, or an earlier one was and has not been.
  bool is_due(std::int64_t step, std::uint32_t requests) {
    due_ = due_ || divides(interval_.steps, step) || divides(export_every_, step) ||
           (requests & (kCommitRequest | kCheckpointTimeDue)) != 0;
    return due_;
  }

  // Whether that commit is to be of this step and no later one, for a snapshot.
  bool cannot_wait(std::int64_t step) const { return divides(export_every_, step); }

  void committed(Clock::time_point now) {
    due_ = false;
    last_ = now;
  }

 private:
  static bool divides(std::int64_t every, std::int64_t step) {
    return every > 0 && step % every == 0;
  }

  CheckpointInterval interval_;
  std::int64_t export_every_;
  Clock::time_point last_;
  bool due_ = false;
};

}  // namespace strata::engine

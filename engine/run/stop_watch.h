// StopWatch: signals as what a run is asked for. SIGHUP, SIGINT, SIGTERM and SIGUSR1 ask it to
// stop, SIGUSR2 to commit and go on.
//
// A run that can be resumed stops at the end of a step, if that comes within --stop-within:
//
//   starting ──step_begins()──▶ training ──stop signal──▶ asked ──run_ends()──▶ ending
//      │                                                    │
//   stop signal                              the step does not end in time
//      └──────────────────▶ dropped ◀───────────────────────┘
//
// Asked: kStopRequest is set; the loop learns in a step's result that all ranks know. Dropped: the
// run has failed with an Interrupted; drop_text() says which commit it goes on from. Ending: the
// last commit is not cut short, nor are the last portable checkpoints. A run with one slot of state
// can be resumed only from the end of a step: it is never dropped once a step has begun. One that
// keeps nothing is dropped at the signal.
//
// Another stop signal, a second later or more, kills the process. Sooner than that it is the same
// once more, as from timeout(1), which signals a process and its group. Signals that were ignored
// before (nohup) stay ignored, but not SIGUSR1 and SIGUSR2: nobody sends these by habit.
//
// Thread contract: one at a time in a process. step_begins(), step_ended() and run_ends() are
// called by the loop's thread, committed() by any; none allocates. The handler only wakes a thread.
#pragma once

#include <signal.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "engine/options/exit_code.h"
#include "engine/run/step_deadline.h"
#include "engine/step/update_gate.h"
#include "kernels/base/failure_latch.h"
#include "offload/plan.h"

namespace strata::engine {

// The user, or whoever manages the job, ended the run.
class Interrupted final : public ExitError {
 public:
  using ExitError::ExitError;
};

struct StopRules {
  offload::Durability durability = offload::Durability::none;
  std::string run;                              // its folder, for what is said of resuming
  std::chrono::duration<double> stop_within{};  // --stop-within
  // Tells the user something, on the watch's thread; empty: on a rank that does not speak.
  std::function<void(std::string_view)> say;
};

class StopWatch {
 public:
  // All must outlive it. Throws IoError when the system refuses.
  StopWatch(StopRules rules, StepRequests& requests, FailureLatch& failure);
  ~StopWatch();
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

  void step_begins(std::int64_t step);
  void step_ended();
  // The run's folder stays, whatever happens from now on.
  void kept();
  // The state after `step` is durable on all ranks.
  void committed(std::int64_t step);
  // No further step follows.
  void run_ends();
  // After that: what is left are portable checkpoints.
  void copies_begin();

  // "stopped by SIGTERM after step 50; resume with …": what to say at the end of a run that was
  // asked to stop, here or on another rank.
  std::string stopped_text(std::int64_t step) const;
  // "stopped by SIGTERM in the middle of step 51, …; resume from step 50 with …": the last words of
  // a run that was dropped, by the commits that it has when it ends.
  std::string drop_text() const;

 private:
  static constexpr std::array<int, 5> kSignals = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

  void watch();
  int wait_ms() const;
  void on_signal(int signal);
  void ask_to_stop(int signal);
  void ask_to_commit();
  void drop_if_late();
  void drop(std::string where);
  std::string drop_text_locked() const;
  void say_copies_go_on() const;
  bool may_be_dropped() const;
  std::string resume_text() const;
  void say(std::string_view text) const;

  const StopRules rules_;
  StepRequests& requests_;
  FailureLatch& failure_;
  std::array<struct sigaction, kSignals.size()> before_{};
  // Only the watch's thread takes signals, not the one that made it, nor those that this starts: a
  // handler on the stack of a compiled kernel of the matmul library has corrupted its memory.
  sigset_t mask_before_{};

  mutable std::mutex mutex_;  // guards what follows, up to the thread
  StepDeadline deadline_;
  std::optional<std::int64_t> step_;  // the last that began
  std::optional<std::int64_t> committed_step_;
  std::optional<StepDeadline::Time> first_signal_at_;
  int signal_ = 0;  // the first
  bool kept_ = false;
  bool over_ = false;    // dropped, or ending
  bool copies_ = false;  // ending, with portable checkpoints
  std::string dropped_where_;
  bool told_no_commits_ = false;

  std::thread thread_;
};

}  // namespace strata::engine

// InterruptWatch: SIGINT, SIGTERM and SIGHUP as a failure of the run, so that it ends as after any
// other: threads stop, exceptions unwind, and the files that are the run's own are deleted.
//
//   watching ──signal──▶ the run has failed ──another, a second later or more──▶ process killed
//
// Sooner than that it is the same signal once more, as from timeout(1), which signals a process and
// its group. Signals that were ignored before (nohup) stay ignored. The handler only wakes a
// thread. One at a time in a process.
#pragma once

#include <signal.h>

#include <array>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/step/exit_code.h"
#include "kernels/base/failure_latch.h"

namespace strata::engine {

// The user, or whoever manages the job, ended the run.
class Interrupted final : public ExitError {
 public:
  explicit Interrupted(int signal);
};

class InterruptWatch {
 public:
  // `failure` must outlive it. Throws IoError when the system refuses.
  explicit InterruptWatch(FailureLatch& failure);
  ~InterruptWatch();
  // Files that a signal deletes at once, besides whoever owns them: launchers of several ranks kill
  // them a moment later, in the middle of that.
  void delete_on_signal(std::vector<std::string> paths);
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  static constexpr std::array<int, 3> kSignals = {SIGHUP, SIGINT, SIGTERM};

  void watch(FailureLatch& failure);
  void delete_files();

  std::array<struct sigaction, kSignals.size()> before_{};
  std::mutex mutex_;
  std::vector<std::string> paths_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace strata::engine

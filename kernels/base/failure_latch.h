// FailureLatch: the first failure of any thread of a run, kept for the thread that can report it.
//
//   clear ──set(first)──▶ failed        (later failures are dropped; there is no way back)
//
// Worker threads (streams, I/O, communication) call set() from their catch block and go on in a
// drain mode that does no work but still completes whatever others wait for, so nothing hangs.
// Threads that wait call check() after waking. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>

namespace strata {

class FailureLatch {
 public:
  FailureLatch() = default;
  FailureLatch(const FailureLatch&) = delete;
  FailureLatch& operator=(const FailureLatch&) = delete;

  void set(std::exception_ptr failure) noexcept {
    const std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return;
    failure_ = std::move(failure);
    failed_.store(true, std::memory_order_release);
  }

  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }

  // Rethrows the first failure, if there is one.
  void check() const {
    if (!failed()) return;
    const std::lock_guard lock(mutex_);
    std::rethrow_exception(failure_);
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
};

// Waits on a condition variable until `ready()`, or rethrows the run's failure. The latch cannot
// notify the variable, so it is looked at a few times a second.
template <typename Ready>
void wait_unless_failed(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                        const FailureLatch& failure, Ready ready) {
  while (!changed.wait_for(lock, std::chrono::milliseconds(50), ready)) failure.check();
}

}  // namespace strata

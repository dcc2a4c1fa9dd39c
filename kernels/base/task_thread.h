// TaskThread: one named thread that runs closures in the order given, through a bounded ring.
// It is what a CPU stream is made of, and what the host-side pipelines of offload/ run on.
//
//   running ──a task throws──▶ draining ──~TaskThread──▶ joined
//      └──────────────~TaskThread──────────────────────────▶ joined
//
// post() blocks while the ring is full (backpressure) and allocates nothing. When a task throws,
// the exception goes to the FailureLatch. From then on (also when any other thread failed the
// latch) the thread drains: tasks posted with Drain::skip are dropped, tasks posted with Drain::run
// still run, because somebody waits for what they signal. Destruction runs or drains everything
// queued. post() is thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/failure_latch.h"
#include "kernels/base/inplace_function.h"

namespace strata {

class TaskThread {
 public:
  static constexpr std::size_t kTaskCapacityBytes = 448;
  using Task = InplaceFunction<kTaskCapacityBytes>;
  enum class Drain { skip, run };

  // The name is the thread's (at most 15 characters are shown by the system).
  TaskThread(std::string name, FailureLatch& failure, std::int64_t queue_capacity);
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void post(Task task, Drain drain = Drain::skip);

  // Blocks until everything posted before the call has run or was dropped.
  void wait_idle();

  bool on_this_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  const std::string& name() const { return name_; }

 private:
  struct Slot {
    Task task;
    Drain drain = Drain::skip;
  };
  void run();

  std::string name_;
  FailureLatch& failure_;
  std::mutex mutex_;
  std::condition_variable changed_;  // a task was posted, or the thread is to stop
  std::condition_variable drained_;  // a slot came free
  std::vector<Slot> ring_;
  std::uint64_t posted_ = 0;
  std::uint64_t finished_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace strata

#include "kernels/base/task_thread.h"

#include <pthread.h>

#include <utility>

namespace strata {

TaskThread::TaskThread(std::string name, FailureLatch& failure, std::int64_t queue_capacity)
    : name_(std::move(name)),
      failure_(failure),
      ring_(static_cast<std::size_t>(queue_capacity)),
      thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), name_.substr(0, 15).c_str());
}

TaskThread::~TaskThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TaskThread::post(Task task, Drain drain) {
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [&] { return posted_ - finished_ < ring_.size(); });
  Slot& slot = ring_[posted_ % ring_.size()];
  slot.task = std::move(task);
  slot.drain = drain;
  ++posted_;
  changed_.notify_one();
}

void TaskThread::wait_idle() {
  std::unique_lock lock(mutex_);
  const std::uint64_t target = posted_;
  drained_.wait(lock, [&] { return finished_ >= target; });
}

void TaskThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return finished_ != posted_ || stopping_; });
    if (finished_ == posted_) return;
    Slot& slot = ring_[finished_ % ring_.size()];
    Task task = std::move(slot.task);
    const bool drop = slot.drain == Drain::skip && failure_.failed();
    lock.unlock();
    if (!drop) {
      try {
        task();
      } catch (...) {
        failure_.set(std::current_exception());
      }
    }
    task = Task();
    lock.lock();
    ++finished_;
    drained_.notify_all();
  }
}

}  // namespace strata

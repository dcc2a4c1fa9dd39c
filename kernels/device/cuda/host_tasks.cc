#include "kernels/device/cuda/host_tasks.h"

#include <chrono>
#include <utility>

#include "kernels/device/cuda/cuda_error.h"

namespace strata {
namespace {

// Between looks at what cannot wake a thread: the latch, and a GPU that failed.
constexpr std::chrono::milliseconds kLook{50};

}  // namespace

HostTasks::HostTasks(FailureLatch& failure) : failure_(failure) {
  for (Slot& slot : slots_) slot.owner = this;
}

HostTasks::~HostTasks() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !running_; });
}

void HostTasks::enqueue(cudaStream_t stream, Stream::HostTask task) {
  const std::lock_guard order(enqueueing_);
  wait_for_slot(stream);
  Slot& slot = slots_[enqueued_ % kSlots];
  slot.task = std::move(task);
  cuda::check(cudaLaunchHostFunc(stream, &run, &slot), "cudaLaunchHostFunc");
  ++enqueued_;
}

void HostTasks::wait_for_slot(cudaStream_t stream) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [&] { return enqueued_ - finished_ < kSlots; })) {
    failure_.check();
    const cudaError_t result = cudaStreamQuery(stream);
    if (result != cudaErrorNotReady) cuda::check(result, "cudaStreamQuery");
    (void)cudaGetLastError();
  }
}

void HostTasks::run(void* slot) {
  auto* const its = static_cast<Slot*>(slot);
  its->owner->run_task(its->task);
}

void HostTasks::run_task(Stream::HostTask& task) {
  {
    const std::lock_guard lock(mutex_);
    running_ = true;
  }
  try {
    if (!failure_.failed()) task();
  } catch (...) {
    failure_.set(std::current_exception());
  }
  task = Stream::HostTask();
  const std::lock_guard lock(mutex_);
  running_ = false;
  ++finished_;
  changed_.notify_all();  // under the lock: its waiter may destroy it next
}

}  // namespace strata

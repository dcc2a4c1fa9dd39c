// Streams and events of the simulated device: a stream is a thread, and runs what is enqueued in
// order. For the simulated libraries too: cuBLASLt, NCCL.
//
// An event is a point in a stream's work, and a wait is for that point alone: what the stream did
// since then orders nothing, so that ThreadSanitizer finds a wait that is missing.
//
// The device fails when work does (faults.h): from then on every call returns that error, work is
// dropped, and waits end.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "cuda_sim/api_call.h"
#include "cuda_sim/block.h"
#include "cuda_sim/report.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/task_thread.h"

namespace strata::cuda_sim {

// The points of a stream that events recorded, as numbers from 1.
class Points {
 public:
  std::uint32_t next() { return last_.fetch_add(1, std::memory_order_relaxed) + 1; }
  void reach(std::uint32_t point);
  bool reached(std::uint32_t point) const;
  void wait_for(std::uint32_t point) const;
  std::int64_t time_ns(std::uint32_t point) const;

 private:
  struct Slot {
    std::atomic<std::uint32_t> point{0};
    std::atomic<std::int64_t> time_ns{0};
  };
  // More than a stream has in its queue, so the point that had the slot before is reached.
  static constexpr std::uint32_t kSlots = 4096;
  std::atomic<std::uint32_t> last_{0};
  std::array<Slot, kSlots> slots_;
};

void wait_for_all_streams();

// True: work is to run. False: the device has failed, or fails now.
bool begin_work();

}  // namespace strata::cuda_sim

struct CUstream_st {
  CUstream_st();
  ~CUstream_st();
  static constexpr std::int64_t kQueueCapacity = 1024;  // whoever enqueues more waits

  // Runs task() in order, also when the device has failed.
  template <typename Task>
  void post(Task task) {
    pending.fetch_add(1, std::memory_order_relaxed);
    thread.post([this, task = std::move(task)]() mutable noexcept {
      task();
      pending.fetch_sub(1, std::memory_order_release);
    });
  }

  std::shared_ptr<strata::cuda_sim::Points> points = std::make_shared<strata::cuda_sim::Points>();
  std::atomic<int> pending{0};
  strata::FailureLatch unused;  // work reports, and does not throw
  strata::TaskThread thread{"cuda stream", unused, kQueueCapacity};
};

struct CUevent_st {
  explicit CUevent_st(bool with_timing) : timing(with_timing) {}
  const bool timing;
  std::mutex mutex;
  std::shared_ptr<strata::cuda_sim::Points> points;  // null: never recorded
  std::uint32_t point = 0;
};

namespace strata::cuda_sim {

// Runs work() on the stream's thread, in order. `name` is a literal.
template <typename Work>
void enqueue(cudaStream_t stream, const char* name, Work work) {
  if (stream == nullptr) report("{} on the default stream, which orders all others", name);
  stream->post([name, work = std::move(work)]() mutable {
    if (!begin_work()) return;
    const Working working(name);
    work();
  });
}

cudaError_t check_size(const cuda::LaunchSize& size);
void run_grid(const cuda::LaunchSize& size, Block::Kernel kernel, const void* closure);

// Runs thread() for every thread of the grid.
template <typename Thread>
cudaError_t launch_grid(cudaStream_t stream, const cuda::LaunchSize& size, Thread thread) {
  return api_call("cudaLaunchKernelExC", [&] {
    if (const cudaError_t error = check_size(size); error != cudaSuccess) return error;
    enqueue(stream, "kernel", [size, thread] {
      run_grid(
          size, [](const void* closure) { (*static_cast<const Thread*>(closure))(); }, &thread);
    });
    return cudaSuccess;
  });
}

}  // namespace strata::cuda_sim

// HostTasks: what a stream runs on the host (cudaLaunchHostFunc), in slots of its own, so that
// enqueueing allocates nothing. Tasks run in order; what one throws fails the run, and those of a
// failed run are dropped. A GPU that fails runs none of them any more.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "kernels/base/failure_latch.h"
#include "kernels/device/device.h"

namespace strata {

class HostTasks {
 public:
  explicit HostTasks(FailureLatch& failure);
  ~HostTasks();  // the stream is idle, or its GPU has failed

  // Waits while all slots are in use. Throws CudaError, or the run's failure.
  void enqueue(cudaStream_t stream, Stream::HostTask task);

 private:
  static constexpr std::uint64_t kSlots = 64;
  struct Slot {
    HostTasks* owner = nullptr;
    Stream::HostTask task;
  };
  void wait_for_slot(cudaStream_t stream);
  static void run(void* slot);
  void run_task(Stream::HostTask& task);

  FailureLatch& failure_;
  std::array<Slot, kSlots> slots_;
  std::mutex enqueueing_;  // in the order of the slots. Not taken by run(): CUDA may wait for it
  std::uint64_t enqueued_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t finished_ = 0;
  bool running_ = false;
};

}  // namespace strata

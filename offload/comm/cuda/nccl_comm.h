// NcclComm: one NCCL communicator of a process, for the collectives of one kind.
//
//   made ──start()──▶ started ──mark_complete()──finish()──▶ ended
//                        └──release()──▶ to be aborted by whoever has the handle
//
// Its calls do not block in NCCL. What NCCL meets, then or later, goes to DeviceCollectives: who is
// to blame the communication thread knows, and its verdict is the run's failure, for which the
// calls here wait.
//
// Enqueueing is thread-safe, but NCCL is not where two threads call it for one GPU, be it for two
// communicators: the calls of all of them go one after the other (`calls`). look() and release()
// are the watcher's. The GPU is current in all.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>

#include "kernels/base/failure_latch.h"
#include "offload/comm/cuda/collective_marks.h"
#include "offload/comm/cuda/nccl_library.h"
#include "offload/comm/device_collectives.h"

namespace strata::comm {

class NcclComm {
 public:
  using Clock = std::chrono::steady_clock;

  // `kind` is an index of DeviceCollectives::kKinds.
  NcclComm(const Nccl& nccl, std::mutex& calls, std::shared_ptr<DeviceCollectives> collectives,
           std::size_t kind, std::chrono::milliseconds timeout, FailureLatch& failure);
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  // Collective. Throws CommError after the timeout.
  void start(const ncclUniqueId& id, int rank, int ranks, std::chrono::milliseconds timeout);
  // At the end, with the streams idle and nobody looking any more.
  void mark_complete() { marks_.finish(); }
  // Collective: waits for the other ranks, as long as they answer.
  void finish();

  // One collective: body() enqueues it, by call() and other work of the stream.
  template <typename Body>
  void collective(cudaStream_t stream, Body&& body) {
    const std::lock_guard order(enqueueing_);
    marks_.begin(stream);
    body();
    marks_.end(stream);
  }
  // Calls function(ncclComm_t), and returns when what it began is on its stream.
  template <typename Function>
  void call(Function&& function) {
    const std::lock_guard alone(calls_);
    settle(locked(function), timeout_);
  }

  void look();
  // Null where it has ended. Who calls afterwards meets an error.
  ncclComm_t release();

 private:
  template <typename Function>
  ncclResult_t locked(Function&& function) {
    const std::lock_guard lock(mutex_);
    return comm_ == nullptr ? ncclInvalidUsage : function(comm_);
  }
  ncclResult_t state();
  void settle(ncclResult_t result, std::chrono::milliseconds timeout);
  void tell(ncclResult_t result);

  const Nccl& nccl_;
  std::mutex& calls_;
  const std::shared_ptr<DeviceCollectives> collectives_;
  const char* const name_;
  const std::chrono::milliseconds timeout_;
  FailureLatch& failure_;
  std::mutex enqueueing_;
  CollectiveMarks marks_;
  std::mutex mutex_;           // of the handle, which release() takes from the others
  ncclComm_t comm_ = nullptr;  // null: not started, or ended
};

}  // namespace strata::comm

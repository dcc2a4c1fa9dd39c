// UnwindDeadline: how long a run that has failed may take to end.
//
// Whoever waits for a GPU waits until it is let go, and a collective that waits for a rank may
// never let it go: NCCL's abort itself may wait for ranks of its host, which may be stopped. After
// the limit the failure is printed here and the process ends, and with it the other ranks. What
// lasts of a run lasts as if it had been killed.
#pragma once

#include <chrono>
#include <thread>

#include "kernels/base/failure_latch.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

class UnwindDeadline {
 public:
  // Both must outlive it.
  UnwindDeadline(comm::Communicator& comm, const FailureLatch& failure,
                 std::chrono::milliseconds limit = std::chrono::minutes(1));

 private:
  void watch(const std::stop_token& stop);

  comm::Communicator& comm_;
  const FailureLatch& failure_;
  std::chrono::milliseconds limit_;
  std::jthread watcher_;
};

}  // namespace strata::engine

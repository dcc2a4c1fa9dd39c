// CommThread: the one thread of a rank that calls MPI, from MPI_Init to MPI_Finalize.
//
// It carries out the exchanges that other threads submit, several at once, keeps the heartbeat, and
// watches both: a message or a heartbeat that does not come within the timeout fails the run with a
// CommError that names the rank. It sleeps between tests (longer the longer it has waited, and on a
// condition variable while nothing is under way), never spins, and allocates only at start and for
// an error.
//
//   starting ──MPI is up──▶ serving ──leave()──▶ parting ──all ranks part──▶ finalised ──▶ ended
//      │                       │                    └──a rank is gone──────────────────────▶ ended
//      │                       └──failure, ours or another thread's──▶ failed ──leave()─────▶ ended
//      └──timeout──▶ abandoned                 (abort() in serving or failed ends the process)
//
// In `failed` no MPI call is made but MPI_Abort: memory that messages pointed to may be gone. Every
// submitted exchange has been dropped and its waiter gets the run's failure.
//
// Time here is what this thread has seen pass: a gap of its own (a suspended machine) is not
// counted as silence of its peers.
#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "kernels/base/failure_latch.h"
#include "offload/comm/communicator.h"
#include "offload/comm/device_watch.h"
#include "offload/comm/exchange.h"
#include "offload/comm/heartbeat.h"

namespace strata::comm {

class CommThread {
 public:
  using Nanoseconds = std::chrono::nanoseconds;
  static constexpr int kLanes = 16;  // exchanges under way at once

  // Starts the thread and initialises MPI. Throws CommError when that fails or exceeds the timeout.
  // The thread shares ownership, for the case that it never comes back from MPI.
  static std::shared_ptr<CommThread> start(std::chrono::milliseconds timeout,
                                           FailureLatch& failure);

  const Topology& topology() const { return topology_; }

  // Thread-safe. The exchange must stay alive until await_finish() or a throw of await_*().
  void submit(Exchange& exchange);
  // Block until the round is complete, the exchange is finished. Throw the run's failure once the
  // exchange was dropped.
  void await_round(Exchange& exchange, std::int64_t round);
  void await_finish(Exchange& exchange);
  // Tells the thread that a round was released.
  void wake();

  // From now on watches these too.
  void watch(std::shared_ptr<const DeviceCollectives> collectives) {
    const std::lock_guard lock(mutex_);
    to_watch_ = std::move(collectives);
  }

  enum class Leave {
    together,  // wait for the other ranks as long as they answer, then finalise MPI
    alone,     // this rank failed: no MPI call any more
  };
  // Ends the thread and waits for it. Call once, last.
  void leave(Leave how);

  // Ends all ranks, this process included, within a few seconds. Does not return.
  [[noreturn]] void abort(int exit_code) noexcept;

 private:
  enum class Order { none, leave_together, leave_alone, abort };
  enum class Phase { starting, serving, finalising, ended };

  CommThread(std::chrono::milliseconds timeout, FailureLatch& failure)
      : failure_(failure), timeout_(timeout) {}

  void run();
  bool initialise();
  void enter(Phase phase);

  // comm_progress.cc
  void serve();
  bool serve_once();
  Order take_orders(Nanoseconds sleep_max);
  bool advance(Lane& lane);
  bool exchange_under_way() const;
  const char* collective_under_way() const;
  void part();
  void drop_all();
  void tick();
  void check_liveness() const;
  void check_device() const;
  std::vector<int> silent_peers(Nanoseconds limit) const;
  [[noreturn]] void report_silent(std::span<const int> peers, const char* during) const;
  [[noreturn]] void report_missing(const char* collective, Nanoseconds waited,
                                   std::span<const int> peers) const;

  FailureLatch& failure_;
  const Nanoseconds timeout_;
  Topology topology_;

  std::mutex mutex_;
  std::condition_variable orders_;    // for the thread: something was submitted, released, ordered
  std::condition_variable progress_;  // for the others: a round completed, the phase changed
  std::vector<Exchange*> submitted_;  // not yet taken by the thread
  std::shared_ptr<const DeviceCollectives> to_watch_;  // not yet taken by the thread
  int under_way_ = 0;                                  // submitted and not finished
  Order order_ = Order::none;
  int exit_code_ = 0;  // of an abort
  bool woken_ = false;
  bool abandoned_ = false;
  bool dropping_ = false;
  Phase phase_ = Phase::starting;
  std::exception_ptr start_failure_;

  // Communication thread only.
  std::vector<Lane> lanes_;
  std::optional<Heartbeat> heartbeat_;
  std::optional<DeviceWatch> device_watch_;
  std::chrono::steady_clock::time_point last_tick_;
  Nanoseconds now_{0};

  std::thread thread_;
};

}  // namespace strata::comm

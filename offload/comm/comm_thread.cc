#ifdef STRATA_HAVE_MPI
#include "offload/comm/comm_thread.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "offload/comm/mpi_check.h"

namespace strata::comm {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kHeartbeatPeriodMax = 1s;
constexpr std::chrono::milliseconds kStartTimeoutMin = 60s;
constexpr std::chrono::nanoseconds kAbortTimeout = 5s;
constexpr std::chrono::nanoseconds kLeaveTimeout = 10s;

Topology mpi_topology() {
  Topology topology;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &topology.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &topology.world_size), "MPI_Comm_size");
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, topology.rank, MPI_INFO_NULL,
                                &host),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(host, &topology.local_rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(host, &topology.local_world_size), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
  const int first_of_host = topology.local_rank == 0 ? 1 : 0;
  check_mpi(MPI_Allreduce(&first_of_host, &topology.hosts, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
            "MPI_Allreduce");
  return topology;
}

}  // namespace

std::shared_ptr<CommThread> CommThread::start(std::chrono::milliseconds timeout,
                                              FailureLatch& failure) {
  const std::shared_ptr<CommThread> self(new CommThread(timeout, failure));
  // Launching takes a while, however soon a running rank is to answer.
  const auto start_timeout = std::max<std::chrono::milliseconds>(timeout, kStartTimeoutMin);
  self->submitted_.reserve(kLanes);
  self->thread_ = std::thread([self] { self->run(); });
  pthread_setname_np(self->thread_.native_handle(), "comm");

  std::unique_lock lock(self->mutex_);
  const bool answered = self->progress_.wait_for(lock, start_timeout,
                                                 [&] { return self->phase_ != Phase::starting; });
  if (!answered) {
    self->abandoned_ = true;
    self->thread_.detach();
    throw_error<CommError>(
        "MPI did not start within {:.3g} s (the longer of --comm-timeout and a minute): a rank was "
        "not started, or the ranks "
        "cannot reach each other",
        std::chrono::duration<double>(start_timeout).count());
  }
  if (self->start_failure_) {
    lock.unlock();
    self->thread_.join();
    std::rethrow_exception(self->start_failure_);
  }
  return self;
}

void CommThread::submit(Exchange& exchange) {
  const std::lock_guard lock(mutex_);
  if (dropping_) {
    exchange.state_ = Exchange::State::dropped;
    return;
  }
  STRATA_CHECK(under_way_ < kLanes, "more than {} collectives at once", kLanes);
  ++under_way_;
  submitted_.push_back(&exchange);
  woken_ = true;
  orders_.notify_one();
}

void CommThread::await_round(Exchange& exchange, std::int64_t round) {
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [&] {
    return exchange.completed_rounds() > round || exchange.state_ == Exchange::State::dropped;
  });
  if (exchange.state_ == Exchange::State::dropped) failure_.check();
}

void CommThread::await_finish(Exchange& exchange) {
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [&] { return exchange.state_ != Exchange::State::submitted; });
  if (exchange.state_ == Exchange::State::dropped) failure_.check();
}

void CommThread::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  orders_.notify_one();
}

void CommThread::leave(Leave how) {
  std::unique_lock lock(mutex_);
  order_ = how == Leave::together ? Order::leave_together : Order::leave_alone;
  orders_.notify_one();
  // The heartbeat bounds the wait for the other ranks, nothing inside MPI bounds the rest.
  if (how == Leave::together) {
    progress_.wait(lock, [&] { return phase_ >= Phase::finalising; });
  }
  const bool ended =
      progress_.wait_for(lock, kLeaveTimeout, [&] { return phase_ == Phase::ended; });
  lock.unlock();
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void CommThread::abort(int exit_code) noexcept {
  std::fflush(nullptr);  // MPI_Abort ends the process without
  {
    const std::lock_guard lock(mutex_);
    order_ = Order::abort;
    exit_code_ = exit_code;
    orders_.notify_one();
  }
  // The launcher ends the other ranks, too, when one exits without MPI_Finalize.
  std::this_thread::sleep_for(kAbortTimeout);
  std::_Exit(exit_code);
}

void CommThread::run() {
  // Short sleeps are to be short: the default slack of 50 us would multiply them.
  prctl(PR_SET_TIMERSLACK, 1000ul);
  bool usable = false;
  try {
    usable = initialise();
  } catch (...) {
    start_failure_ = std::current_exception();
  }
  if (usable) serve();
  enter(Phase::ended);
}

bool CommThread::initialise() {
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_) return false;
  }
  if (provided < MPI_THREAD_FUNNELED) {
    throw CommError("this MPI was built without thread support (MPI_THREAD_FUNNELED)");
  }
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  topology_ = mpi_topology();
  lanes_.reserve(kLanes);
  for (int i = 0; i < kLanes; ++i) {
    lanes_.emplace_back(MPI_COMM_WORLD, topology_.rank, topology_.world_size);
  }
  heartbeat_.emplace(MPI_COMM_WORLD, topology_.rank, topology_.world_size,
                     std::min(timeout_ / 10, kHeartbeatPeriodMax));
  last_tick_ = std::chrono::steady_clock::now();
  enter(Phase::serving);
  return true;
}

void CommThread::enter(Phase phase) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
  progress_.notify_all();
}

}  // namespace strata::comm
#endif  // STRATA_HAVE_MPI

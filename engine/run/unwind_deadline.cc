#include "engine/run/unwind_deadline.h"

#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "engine/run/error_report.h"

namespace strata::engine {
namespace {

constexpr std::chrono::milliseconds kLookPeriod{200};

}  // namespace

UnwindDeadline::UnwindDeadline(comm::Communicator& comm, const FailureLatch& failure,
                               std::chrono::milliseconds limit)
    : comm_(comm),
      failure_(failure),
      limit_(limit),
      watcher_([this](const std::stop_token& stop) { watch(stop); }) {}

void UnwindDeadline::watch(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (!failure_.failed()) {
    stopped.wait_for(lock, stop, kLookPeriod, [] { return false; });
    if (stop.stop_requested()) return;
  }
  stopped.wait_for(lock, stop, limit_, [] { return false; });
  if (stop.stop_requested()) return;
  try {
    failure_.check();
  } catch (const std::exception& error) {
    report(error, comm_.world_size() > 1 ? comm_.rank() : -1);
    comm_.abort(exit_code_of(error));
    std::_Exit(exit_code_of(error));
  }
}

}  // namespace strata::engine

#include "cuda_sim/faults.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include "cuda_sim/api_call.h"
#include "cuda_sim/report.h"
#include "cuda_sim/stream.h"

namespace strata::cuda_sim {
namespace {

struct CallFault {
  int calls_left;
  int error;
};
std::mutex faults_mutex;
std::multimap<std::string, CallFault, std::less<>> call_faults;
std::map<std::string, int, std::less<>> calls;
std::atomic<bool> watches_calls{false};  // so that calls otherwise take no lock

// What the environment asks of a process, while it lives.
class Environment {
 public:
  Environment() {
    if (const char* const planted = std::getenv("STRATA_SIM_FAULT")) plant(planted);
    if (counts_to_ != nullptr) watches_calls = true;
  }
  bool counting() {  // under the lock of calls
    if (from_ != nullptr && ::access(from_, F_OK) == 0) from_ = nullptr;
    return from_ == nullptr;
  }
  ~Environment() {
    if (counts_to_ == nullptr) return;
    std::ofstream file(counts_to_);
    for (const auto& [function, count] : calls) file << function << ' ' << count << '\n';
  }

 private:
  static void plant(const char* planted) {
    std::istringstream text(planted);
    std::string function;
    char colon = 0;
    CallFault fault{};
    std::getline(text, function, ':') >> fault.calls_left >> colon >> fault.error;
    if (!text || colon != ':') report("STRATA_SIM_FAULT={} is no FUNCTION:NTH:ERROR", planted);
    fail_call(function, fault.calls_left, fault.error);
  }

  const char* counts_to_ = std::getenv("STRATA_SIM_CALLS");
  const char* from_ = std::getenv("STRATA_SIM_FROM");
};
Environment environment;

}  // namespace

void fail_call(std::string function, int nth, int error) {
  const std::lock_guard lock(faults_mutex);
  call_faults.insert({std::move(function), {nth, error}});
  watches_calls.store(true, std::memory_order_relaxed);
}

void mend() {
  {
    const std::lock_guard lock(faults_mutex);
    call_faults.clear();
    watches_calls.store(false, std::memory_order_relaxed);
  }
  wait_for_all_streams();  // they drop what is enqueued
  mend_device();
}

int take_call_fault(const char* function) {
  if (!watches_calls.load(std::memory_order_relaxed)) return 0;
  const std::lock_guard lock(faults_mutex);
  if (!environment.counting()) return 0;
  ++calls[function];
  const auto [begin, end] = call_faults.equal_range(std::string_view(function));
  int error = 0;
  for (auto fault = begin; fault != end;) {
    const bool now = --fault->second.calls_left == 0;
    if (now) error = fault->second.error;
    fault = now ? call_faults.erase(fault) : std::next(fault);
  }
  return error;
}

}  // namespace strata::cuda_sim

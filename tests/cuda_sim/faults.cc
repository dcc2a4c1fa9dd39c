#include "cuda_sim/faults.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "cuda_sim/api_call.h"
#include "cuda_sim/stream.h"

namespace strata::cuda_sim {
namespace {

struct CallFault {
  int calls_left;
  int error;
};
std::mutex faults_mutex;
std::multimap<std::string, CallFault, std::less<>> call_faults;
std::atomic<bool> any_call_faults{false};  // so that calls without faults take no lock
std::atomic<int> work_left{0};             // until work fails; 0: none does
std::atomic<cudaError_t> work_error{cudaSuccess};

}  // namespace

void fail_call(std::string function, int nth, int error) {
  const std::lock_guard lock(faults_mutex);
  call_faults.insert({std::move(function), {nth, error}});
  any_call_faults.store(true, std::memory_order_relaxed);
}

void fail_work(int nth, cudaError_t error) {
  work_error.store(error, std::memory_order_relaxed);
  work_left.store(nth, std::memory_order_relaxed);
}

void mend() {
  {
    const std::lock_guard lock(faults_mutex);
    call_faults.clear();
    any_call_faults.store(false, std::memory_order_relaxed);
  }
  wait_for_all_streams();  // they drop what is enqueued
  work_left.store(0, std::memory_order_relaxed);
  mend_device();
}

int take_call_fault(const char* function) {
  if (!any_call_faults.load(std::memory_order_relaxed)) return 0;
  const std::lock_guard lock(faults_mutex);
  const auto [begin, end] = call_faults.equal_range(std::string_view(function));
  int error = 0;
  for (auto fault = begin; fault != end;) {
    const bool now = --fault->second.calls_left == 0;
    if (now) error = fault->second.error;
    fault = now ? call_faults.erase(fault) : std::next(fault);
  }
  return error;
}

cudaError_t take_work_fault() {
  if (work_left.load(std::memory_order_relaxed) == 0) return cudaSuccess;
  return work_left.fetch_sub(1, std::memory_order_relaxed) == 1
             ? work_error.load(std::memory_order_relaxed)
             : cudaSuccess;
}

}  // namespace strata::cuda_sim

#include "cuda_sim/api_call.h"

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "cuda_sim/faults.h"
#include "cuda_sim/report.h"

namespace strata::cuda_sim {
namespace {

std::atomic<cudaError_t> failure{cudaSuccess};  // of the device

// Of one thread. The ones that nobody took are counted for all threads.
constinit thread_local cudaError_t last_error = cudaSuccess;
constinit thread_local const char* last_failed = "";  // the function of that error
constinit thread_local bool in_host_function = false;
std::mutex unseen_mutex;
int unseen_errors = 0;
std::string last_unseen;  // for the report

bool counts(cudaError_t error) { return error != cudaSuccess && error != cudaErrorNotReady; }

void see_last_error(cudaError_t replacement, const char* function) {
  const int change = int{counts(replacement)} - int{counts(last_error)};
  last_error = replacement;
  last_failed = function;
  if (change == 0) return;
  const std::lock_guard lock(unseen_mutex);
  unseen_errors += change;
  if (change > 0) last_unseen = fmt::format("{} of {}", cudaGetErrorName(replacement), function);
}

}  // namespace

void require_seen(const char* function) {
  if (!counts(last_error)) return;
  report("nobody looked at {} of {}, and {} is called", cudaGetErrorName(last_error), last_failed,
         function);
}

cudaError_t before_call(const char* function) {
  if (in_host_function) report("{} is called by a host function", function);
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  return static_cast<cudaError_t>(take_call_fault(function));
}

cudaError_t after_call(const char* function, cudaError_t error) {
  // What the failed device returns is kept by the device itself.
  if (error != cudaSuccess && error != device_error()) see_last_error(error, function);
  return error;
}

cudaError_t device_error() { return failure.load(std::memory_order_relaxed); }

void fail_device(cudaError_t error) {
  cudaError_t none = cudaSuccess;
  failure.compare_exchange_strong(none, error, std::memory_order_relaxed);
}

void mend_device() {
  failure.store(cudaSuccess, std::memory_order_relaxed);
  see_last_error(cudaSuccess, "");
}

InHostFunction::InHostFunction() { in_host_function = true; }
InHostFunction::~InHostFunction() { in_host_function = false; }

void report_unseen_error() {
  const std::lock_guard lock(unseen_mutex);
  if (unseen_errors > 0) report("nobody looked at {}", last_unseen);
}

}  // namespace strata::cuda_sim

using namespace strata::cuda_sim;

cudaError_t cudaPeekAtLastError() {
  return device_error() != cudaSuccess ? device_error() : last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  see_last_error(cudaSuccess, "");
  return error;
}

// What every function of the simulated runtime does: fails where the device has failed or a fault
// is planted, refuses calls from host functions, and keeps the error for cudaGetLastError().
#pragma once

#include <cuda_runtime_api.h>

namespace strata::cuda_sim {

// Reports an error that this thread's last call returned and that it did not take with
// cudaGetLastError(), as cuda_error.h's check() does.
void require_seen(const char* function);
cudaError_t before_call(const char* function);
cudaError_t after_call(const char* function, cudaError_t error);

template <typename Body>
cudaError_t api_call(const char* function, Body body) {
  require_seen(function);
  cudaError_t error = before_call(function);
  if (error == cudaSuccess) error = body();
  return after_call(function, error);
}

// Of a function that gives something back: it does so in a failed device too, so that one process
// can go on to the next test.
template <typename Body>
cudaError_t release_call(const char* function, Body body) {
  const cudaError_t refused = before_call(function);
  const cudaError_t error = body();
  return after_call(function, refused != cudaSuccess ? refused : error);
}

// The error of the failed device, or success.
cudaError_t device_error();

void fail_device(cudaError_t error);
void mend_device();

// This thread runs a host function while it lives: it must not call the runtime.
class InHostFunction {
 public:
  InHostFunction();
  ~InHostFunction();
  InHostFunction(const InHostFunction&) = delete;
  InHostFunction& operator=(const InHostFunction&) = delete;
};

// The same for the last call of every thread: for when the device's memory is freed.
void report_unseen_error();

}  // namespace strata::cuda_sim

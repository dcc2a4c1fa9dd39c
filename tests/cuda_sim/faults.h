// Planted faults of the simulated device. Thread-safe; plant them while no other thread is calling.
//
// In a program that loads the simulated backend, the environment plants one, and tells where they
// could be:
//   STRATA_SIM_FAULT=FUNCTION:NTH:ERROR   fail_call(FUNCTION, NTH, ERROR)
//   STRATA_SIM_CALLS=FILE                 at exit, a line of each function and its calls
//   STRATA_SIM_FROM=FILE                  calls count for both once this file is there
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace strata::cuda_sim {

// The nth call from now (1: the next) of a function, by its name, returns `error` (of the
// function's own type) and does nothing; what gives something back does so. A launch is
// cudaLaunchKernelExC, as on hardware.
void fail_call(std::string function, int nth, int error);

// The nth piece of work (kernel, copy, fill) that any stream begins from now on fails, and with it
// the device: as an illegal access of a kernel does.
inline constexpr const char* kWork = "work";  // as a function
inline void fail_work(int nth, cudaError_t error) { fail_call(kWork, nth, error); }

// No fault is planted and the device works, once its streams are idle. For the end of a test:
// hardware needs a new process.
void mend();

// For the simulated functions: the planted error of this call, or 0.
int take_call_fault(const char* function);

}  // namespace strata::cuda_sim

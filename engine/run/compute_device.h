// The device that a run computes with, or is measured on, with its memory and ops.
#pragma once

#include <memory>

#include "engine/plan/run_setup.h"
#include "kernels/base/budget.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/trace.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/cpu_device.h"

namespace strata::engine {

struct ComputeDevice {
  // `workers` are the cpu device's; `tracer` may be null.
  ComputeDevice(const RunSetup& setup, WorkerSet& workers, FailureLatch& failure, Tracer* tracer);

  Budget host_budget;
  std::unique_ptr<Device> device;
};

}  // namespace strata::engine

// The device that a run computes with, or is measured on, with its memory and ops.
#pragma once

#include "engine/plan/run_setup.h"
#include "kernels/base/budget.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/trace.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/cpu_device.h"

namespace strata::engine {

struct ComputeDevice {
  ComputeDevice(const RunSetup& setup, WorkerSet& workers, FailureLatch& failure, Tracer* tracer)
      : host_budget("host memory", setup.plan.host_memory_bytes),
        device({setup.plan.device_memory_bytes, -1}, host_budget, workers, failure, tracer) {
    const Dtype arithmetic =
        setup.options.matmul_dtype == "f32" ? Dtype::f32 : setup.shape.precision;
    ops::attach_cpu_ops(device, setup.isa, setup.op_limits, arithmetic, {});
  }

  Budget host_budget;
  CpuDevice device;
};

}  // namespace strata::engine

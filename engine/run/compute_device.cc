#include "engine/run/compute_device.h"

#include "kernels/ops/cpu_ops.h"
#include "kernels/ops/cuda_ops.h"

namespace strata::engine {

namespace {

std::unique_ptr<Device> make_cpu_device(const RunSetup& setup, Budget& host_budget,
                                        WorkerSet& workers, FailureLatch& failure, Tracer* tracer) {
  const CpuDeviceOptions options{setup.plan.device_memory_bytes, -1};
  auto device = std::make_unique<CpuDevice>(options, host_budget, workers, failure, tracer);
  const Dtype arithmetic = setup.options.matmul_dtype == "f32" ? Dtype::f32 : setup.shape.precision;
  ops::attach_cpu_ops(*device, setup.isa, setup.op_limits, arithmetic, {});
  return device;
}

std::unique_ptr<Device> make_cuda_device(const RunSetup& setup, Budget& host_budget,
                                         FailureLatch& failure, Tracer* tracer) {
  const auto& [backend, gpu] = *setup.device.gpu;
  auto device =
      backend.make_device({gpu, setup.plan.device_memory_bytes, -1, tracer}, host_budget, failure);
  ops::attach_cuda_ops(backend, *device, setup.op_limits);
  return device;
}

}  // namespace

ComputeDevice::ComputeDevice(const RunSetup& setup, WorkerSet& workers, FailureLatch& failure,
                             Tracer* tracer)
    : host_budget("host memory", setup.plan.host_memory_bytes),
      device(setup.device.gpu ? make_cuda_device(setup, host_budget, failure, tracer)
                              : make_cpu_device(setup, host_budget, workers, failure, tracer)) {}

}  // namespace strata::engine

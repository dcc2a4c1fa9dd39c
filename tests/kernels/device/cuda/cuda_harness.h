// A cuda device with its surroundings, for its tests and the conformance suite.
#pragma once

#include <memory>

#include "kernels/device/cuda/cuda_device.h"
#include "kernels/device/cuda/gpu.h"
#include "tests/kernels/device/device_conformance.h"

namespace strata::test {

inline CudaDeviceOptions options_for(std::int64_t bytes, int skip_wait_kind = -1,
                                     Tracer* tracer = nullptr) {
  const Gpu gpu = cuda::open_gpu(0);
  return {gpu, gpu.context_bytes + bytes, skip_wait_kind, tracer};
}

class CudaHarness : public DeviceHarness {
 public:
  explicit CudaHarness(int skip_wait_kind = -1, Tracer* tracer = nullptr)
      : device_(options_for(kDeviceBytes, skip_wait_kind, tracer), host_budget_, failure_) {}
  CudaDevice& device() override { return device_; }
  Budget& host_budget() { return host_budget_; }
  FailureLatch& failure() { return failure_; }

 private:
  Budget host_budget_{"host memory", kHostBytes};
  FailureLatch failure_;
  CudaDevice device_;
};

inline std::unique_ptr<DeviceHarness> make_cuda_harness() {
  return std::make_unique<CudaHarness>();
}

}  // namespace strata::test

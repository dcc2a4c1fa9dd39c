// What a TestDevice is made of with STRATA_TEST_ON_CUDA: a cuda device, to which threads,
// instruction set and arithmetic mean nothing.
#pragma once

#include <cstdint>

#include "kernels/base/budget.h"
#include "kernels/base/bytes.h"
#include "kernels/base/dtype.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/isa.h"
#include "kernels/device/cuda/cuda_device.h"
#include "kernels/device/cuda/gpu.h"
#include "kernels/ops/cuda_ops.h"

STRATA_CUDA_ENTRY_POINT strata::ops::cuda_entry::AttachOps strata_cuda_attach_ops;

namespace strata::testing {

class DeviceOfTests {
 public:
  explicit DeviceOfTests(const ops::CpuOpsLimits& limits, Dtype /*arithmetic*/ = Dtype::bf16,
                         int /*threads*/ = 1, Isa /*isa*/ = Isa::scalar)
      : device_(options(), host_, failure_) {
    strata_cuda_attach_ops(device_, limits);
  }
  explicit DeviceOfTests(Isa /*isa*/ = Isa::scalar, int /*threads*/ = 1) : DeviceOfTests(kLimits) {}

 protected:
  Device& device() { return device_; }

 private:
  static constexpr std::int64_t kMemoryBytes = 128 * kMiB;
  static constexpr ops::CpuOpsLimits kLimits = {.weight_rows_max = 4096,
                                                .weight_cols_max = 4096,
                                                .rows_max = 4096,
                                                .tokens_max = 1024,
                                                .head_dim = 64};

  static CudaDeviceOptions options() {
    const Gpu gpu = cuda::open_gpu(0);
    return {.gpu = gpu, .device_memory_bytes = gpu.context_bytes + kMemoryBytes};
  }

  Budget host_{"host memory", 2 * kMemoryBytes};
  FailureLatch failure_;
  CudaDevice device_;
};

}  // namespace strata::testing

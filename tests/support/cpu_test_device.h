// What a TestDevice is made of: a cpu device and its surroundings.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/base/budget.h"
#include "kernels/base/bytes.h"
#include "kernels/base/dtype.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/isa.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/cpu_device.h"
#include "kernels/ops/cpu/op_state.h"
#include "kernels/ops/cpu_ops.h"

namespace strata::testing {

class DeviceOfTests {
 public:
  // For every op up to `limits`. `arithmetic`: of matmuls with bf16 operands.
  DeviceOfTests(const ops::CpuOpsLimits& limits, Dtype arithmetic, int threads = 2,
                Isa isa = best_isa())
      : DeviceOfTests(threads) {
    ops::attach_cpu_ops(device_, isa, limits, arithmetic, {});
  }
  // For ops that multiply no matrices: any number of instruction sets in one process.
  explicit DeviceOfTests(Isa isa = best_isa(), int threads = 2) : DeviceOfTests(threads) {
    ops::cpu::attach_op_state(device_, std::make_shared<ops::cpu::OpState>(ops::cpu::OpState{isa}));
  }

  CpuDevice& cpu() { return device_; }

 protected:
  Device& device() { return device_; }

 private:
  static constexpr std::int64_t kMemoryBytes = 128 * kMiB;
  explicit DeviceOfTests(int threads)
      : workers_(threads),
        device_({.device_memory_bytes = kMemoryBytes}, host_, workers_, failure_, nullptr) {}

  Budget host_{"host memory", 2 * kMemoryBytes};
  WorkerSet workers_;
  FailureLatch failure_;
  CpuDevice device_;
};

}  // namespace strata::testing

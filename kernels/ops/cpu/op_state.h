// What the CPU ops find on their device: CpuDevice::op_state() is an OpState. Whoever needs more
// (compiled matmuls, scratch memory) derives from it and attaches the derived object.
#pragma once

#include <memory>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/base/isa.h"
#include "kernels/device/cpu_device.h"

namespace strata::ops::cpu {

struct OpState {
  Isa isa = Isa::scalar;
};

// Converts to OpState before the type is erased, so that op_state() may cast back.
inline void attach_op_state(CpuDevice& device, std::shared_ptr<OpState> state) {
  device.attach(std::move(state));
}

inline OpState& op_state(CpuDevice& device) {
  STRATA_CHECK(device.op_state() != nullptr, "attach_cpu_ops() comes before the first op");
  return *static_cast<OpState*>(device.op_state());
}

}  // namespace strata::ops::cpu

#include "kernels/ops/cuda_ops.h"

#include "kernels/base/error.h"

namespace strata::ops {

void attach_cuda_ops(const CudaBackend& backend, Device& device, const CpuOpsLimits& limits) {
  backend.entry_point<cuda_entry::AttachOps>("strata_cuda_attach_ops")(device, limits);
}

CudaOps* cuda_ops(Stream& stream) {
  Device& device = stream.device();
  if (device.kind() != DeviceKind::cuda) return nullptr;
  STRATA_CHECK(device.op_state() != nullptr, "CudaOps are attached before the first op");
  return static_cast<CudaOps*>(device.op_state());
}

}  // namespace strata::ops

#include "kernels/ops/cuda_ops.h"

#include "kernels/base/error.h"

namespace strata::ops {

void attach_cuda_ops(const CudaBackend& backend, Device& device, const CpuOpsLimits& limits) {
  backend.entry_point<cuda_entry::AttachOps>("strata_cuda_attach_ops")(device, limits);
}

std::int64_t cuda_ops_scratch_bytes(const CudaBackend& backend, const CpuOpsLimits& limits) {
  return backend.entry_point<cuda_entry::OpsScratchBytes>("strata_cuda_ops_scratch_bytes")(limits);
}

void charge_cuda_ops(const CudaBackend& backend, Gpu& gpu, LibraryAttention attention) {
  backend.entry_point<cuda_entry::ChargeOps>("strata_cuda_charge_ops")(gpu, attention);
}

std::string cuda_matmul_library(const CudaBackend& backend) {
  std::string name;
  backend.entry_point<cuda_entry::MatmulLibrary>("strata_cuda_matmul_library")(name);
  return name;
}

CudaOps* cuda_ops(Stream& stream) {
  Device& device = stream.device();
  if (device.kind() != DeviceKind::cuda) return nullptr;
  STRATA_CHECK(device.op_state() != nullptr, "CudaOps are attached before the first op");
  return static_cast<CudaOps*>(device.op_state());
}

}  // namespace strata::ops

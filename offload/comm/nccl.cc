#include "offload/comm/nccl.h"

namespace strata::comm {

void require_nccl(const CudaBackend& backend) {
  backend.entry_point<cuda_entry::RequireNccl>("strata_cuda_require_nccl")();
}

std::unique_ptr<Communicator> make_nccl_communicator(const CudaBackend& backend, Communicator& host,
                                                     Gpu& gpu, const NcclOptions& options,
                                                     FailureLatch& failure) {
  std::unique_ptr<Communicator> result;
  backend.entry_point<cuda_entry::MakeNcclCommunicator>("strata_cuda_make_nccl_communicator")(
      host, gpu, options, failure, result);
  return result;
}

}  // namespace strata::comm

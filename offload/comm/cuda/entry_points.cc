// What the program finds in the backend: offload/comm/nccl.h.
#include "kernels/base/error.h"
#include "offload/comm/nccl.h"

#ifdef STRATA_HAVE_NCCL
#include "offload/comm/cuda/nccl_communicator.h"
#endif

namespace strata::comm {

STRATA_CUDA_ENTRY_POINT cuda_entry::RequireNccl strata_cuda_require_nccl;
STRATA_CUDA_ENTRY_POINT cuda_entry::MakeNcclCommunicator strata_cuda_make_nccl_communicator;

#ifdef STRATA_HAVE_NCCL
void strata_cuda_require_nccl() { (void)load_nccl(); }

void strata_cuda_make_nccl_communicator(Communicator& host, Gpu& gpu, const NcclOptions& options,
                                        FailureLatch& failure,
                                        std::unique_ptr<Communicator>& result) {
  result = std::make_unique<NcclCommunicator>(host, gpu, options, failure);
}
#else
void strata_cuda_require_nccl() {
  throw ConfigError(
      "this build's CUDA backend is without NCCL and trains on one rank: start it without mpirun "
      "or srun, or build it where nccl.h is installed");
}

void strata_cuda_make_nccl_communicator(Communicator& /*host*/, Gpu& /*gpu*/,
                                        const NcclOptions& /*options*/, FailureLatch& /*failure*/,
                                        std::unique_ptr<Communicator>& /*result*/) {
  strata_cuda_require_nccl();
}
#endif

}  // namespace strata::comm

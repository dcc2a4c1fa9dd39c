// Ranks with a GPU each: collectives by NCCL, in the CUDA backend (cuda/nccl_communicator.cc).
//
// Host functions and the heartbeat are those of another communicator between the same ranks, MPI's.
// It also watches NCCL's collectives: a rank that is gone, or that takes no part in one for the
// timeout, ends the run with a CommError that names it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "kernels/base/failure_latch.h"
#include "kernels/device/cuda_backend.h"
#include "offload/comm/communicator.h"

namespace strata::comm {

struct NcclOptions {
  std::chrono::milliseconds timeout{300000};
  // Of a reduce-scatter, what each pair of ranks exchanges at a time; a multiple of 16. Staging is
  // world_size - 1 of these.
  std::int64_t piece_bytes = 8 << 20;
};

// Throws ConfigError where there is no NCCL.
void require_nccl(const CudaBackend& backend);

// Collective over the ranks of `host`, once the GPU is open and before its memory is planned: what
// NCCL takes of it is measured, and added to gpu.context_bytes. `host` and `failure` must outlive
// the result. Throws CommError, CudaError, and ConfigError where there is no NCCL.
std::unique_ptr<Communicator> make_nccl_communicator(const CudaBackend& backend, Communicator& host,
                                                     Gpu& gpu, const NcclOptions& options,
                                                     FailureLatch& failure);

namespace cuda_entry {
using RequireNccl = void();
using MakeNcclCommunicator = void(Communicator& host, Gpu& gpu, const NcclOptions& options,
                                  FailureLatch& failure, std::unique_ptr<Communicator>& result);
}  // namespace cuda_entry

}  // namespace strata::comm

// Faults of the simulated NCCL (nccl.cc), beside those of calls (faults.h).
#pragma once

namespace strata::cuda_sim {

// fail_call(kNcclWork, n, error): the nth group of operations that a stream begins from now on
// meets this error (ncclResult_t), asynchronously, and does nothing until it is aborted: with
// ncclInProgress it is stuck, and says nothing of it.
inline constexpr const char* kNcclWork = "NCCL work";

}  // namespace strata::cuda_sim

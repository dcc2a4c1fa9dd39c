// Which GPUs the backend's kernels were compiled for (-DSTRATA_CUDA_ARCHITECTURES).
#pragma once

namespace strata::cuda {

// The compute capability, 89 for 8.9, from which on they run: a newer GPU's driver compiles them
// for it at their first use.
int oldest_capability();

}  // namespace strata::cuda

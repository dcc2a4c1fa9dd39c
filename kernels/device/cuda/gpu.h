// Which GPU a process takes.
#pragma once

#include "kernels/device/cuda_backend.h"

namespace strata::cuda {

// Throws ConfigError or CudaError unless one is visible.
int visible_gpus();

// The GPU of a rank among those that it sees: all of its machine, or those that its launcher gave
// it alone. Two ranks may be given the same one, which their ids tell.
int choose_gpu(int visible, int local_rank);

// Throws ConfigError where this build's kernels do not run on a GPU of this compute capability (89
// for 8.9).
void require_kernels_for(const std::string& name, int capability);

// Makes no context yet. Throws as the two above.
std::string gpu_id(int local_rank);

Gpu open_gpu(int local_rank);

void close_gpu(const Gpu& gpu);

// Reads gpu.free_bytes again; what has gone of it since is the context's. With the GPU current.
void charge_growth(Gpu& gpu);

}  // namespace strata::cuda

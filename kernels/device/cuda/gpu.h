// Which GPU a process takes.
#pragma once

#include "kernels/device/cuda_backend.h"

namespace strata::cuda {

// Throws ConfigError or CudaError unless one is visible.
int visible_gpus();

// The GPU of a rank among those of its machine: its own, or the only one that is visible. Throws
// ConfigError.
int choose_gpu(int visible, int local_rank);

std::string gpu_id(int local_rank);

Gpu open_gpu(int local_rank);

// Reads gpu.free_bytes again; what has gone of it since is the context's. With the GPU current.
void charge_growth(Gpu& gpu);

}  // namespace strata::cuda

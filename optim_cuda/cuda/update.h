// The update on a cuda device.
#pragma once

#include <cuda_runtime_api.h>

#include "optim_cuda/update_call.h"

namespace strata::optim::cuda {

void update(cudaStream_t stream, const UpdateCall& call);

}  // namespace strata::optim::cuda

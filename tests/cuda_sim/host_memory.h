// Host memory that is registered (pinned). Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace strata::cuda_sim {

cudaError_t register_host(const void* address, std::int64_t bytes);
cudaError_t unregister_host(const void* address);

// Reports what is not registered as a whole: the driver would copy it in pieces through memory of
// its own, and the enqueueing thread would wait.
void require_registered(const void* address, std::int64_t bytes);

}  // namespace strata::cuda_sim

// RankDevice: the device that --device comes to on a rank (engine/run/rank_devices.h), settled
// before anything is planned for it: a GPU's context is made first, for only then is it known what
// memory that leaves.
#pragma once

#include <optional>
#include <string>

#include "kernels/device/cuda_backend.h"

namespace strata::engine {

struct RankGpu {
  CudaBackend backend;
  Gpu gpu;
};

struct RankDevice {
  std::optional<RankGpu> gpu;  // none: the cpu device
  std::string reason;          // why auto chose it; "": --device names it

  const char* name() const { return gpu ? "cuda" : "cpu"; }  // as --device has it
};

// Name and version of the library that multiplies, and what it runs on.
std::string matmul_library(const RankDevice& device);

}  // namespace strata::engine

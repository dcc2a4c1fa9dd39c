// RankDevice: the device that --device comes to on a rank, settled before anything is planned for
// it: a GPU's context is made first, for only then is it known what memory that leaves.
#pragma once

#include <optional>
#include <string>

#include "engine/options/options.h"
#include "kernels/device/cuda_backend.h"
#include "offload/comm/communicator.h"

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

// The backend of the device that --device stands for on these ranks; none: the cpu device, and
// `reason` says why auto is that. Throws ConfigError where cuda is not to be had.
CudaSearch find_device(const Options& options, const comm::Topology& topology);

// Makes the context of a GPU: once in a process. Throws ConfigError or CudaError.
RankDevice open_device(const Options& options, const comm::Topology& topology);

// Name and version of the library that multiplies, and what it runs on.
std::string matmul_library(const RankDevice& device);

}  // namespace strata::engine

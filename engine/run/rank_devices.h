// The devices of a run's ranks: all GPUs, each a rank's own, or all processors.
#pragma once

#include <functional>

#include "engine/options/options.h"
#include "engine/run/ranks.h"

namespace strata::engine {

// Runs `command` with what --device comes to and, where that is several GPUs, a communicator
// between them. Opens nothing for a described machine. Collective: options that ranks may not
// choose for themselves are the same on all, and auto is a GPU where every rank has one. Throws
// ConfigError, CudaError, CommError and AgreedFailure.
int run_on_devices(const Options& options, const Ranks& joined,
                   const std::function<int(Ranks&)>& command);

// The least free memory and the largest context of all ranks' GPUs become those of each, so that
// every rank plans alike, and for the smallest. Collective.
void agree_on_memory(comm::Communicator& comm, Gpu& gpu);

// Runs body() while this rank, the only one, has no context on its GPU, for processes that need all
// of it. No device is alive. Throws CudaError.
void without_gpu(const Options& options, Ranks& ranks, const std::function<void()>& body);

}  // namespace strata::engine

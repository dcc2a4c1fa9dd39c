// The byte budgets of a rank's device and host memory, from the options and the machine.
//
// --host-memory is per machine and divided over its ranks; --device-memory is per device. What is
// not given is taken from what is free, less a margin that leaves the machine usable: a tenth, of a
// GPU a fiftieth, and at least 1 GiB. On the cpu device both tiers are the same RAM: two unset
// budgets share it equally. Of a GPU's memory its context is part.
#pragma once

#include <cstdint>

#include "engine/options/options.h"
#include "engine/plan/rank_device.h"
#include "kernels/base/bytes.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

struct MemoryBudgets {
  std::int64_t device_bytes = 0;
  std::int64_t host_bytes = 0;
};

// What a search leaves of a GPU's memory that it divides: a context takes some MiB more or less
// each time that a run starts.
inline constexpr std::int64_t kContextSlackBytes = 64 * kMiB;

// What a rank may take of this machine's memory, for both tiers.
std::int64_t usable_memory_bytes(const comm::Topology& topology);

// Throws ConfigError for more than there is.
MemoryBudgets resolve_memory_budgets(const Options& options, const comm::Topology& topology,
                                     const RankDevice& device = {});

}  // namespace strata::engine

#include "engine/plan/memory_budgets.h"

#include <algorithm>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"

namespace strata::engine {

std::int64_t usable_memory_bytes(const comm::Topology& topology) {
  const std::int64_t available = available_memory_bytes();
  return std::max<std::int64_t>(0, available - std::max(kGiB, available / 10)) /
         topology.local_world_size;
}

MemoryBudgets resolve_memory_budgets(const Options& options, const comm::Topology& topology) {
  const std::int64_t ranks = topology.local_world_size;
  const std::int64_t share = usable_memory_bytes(topology);
  MemoryBudgets budgets;
  if (options.host_memory) budgets.host_bytes = *options.host_memory / ranks;
  if (options.device_memory) budgets.device_bytes = *options.device_memory;
  if (!options.host_memory && !options.device_memory) {
    budgets.host_bytes = share / 2;
    budgets.device_bytes = share / 2;
  } else if (!options.host_memory) {
    budgets.host_bytes = std::max<std::int64_t>(0, share - budgets.device_bytes);
  } else if (!options.device_memory) {
    budgets.device_bytes = std::max<std::int64_t>(0, share - budgets.host_bytes);
  }
  if (!options.machine.empty()) return budgets;  // of a described machine: given, and checked
  const std::int64_t both = budgets.host_bytes + budgets.device_bytes;
  const std::int64_t available = available_memory_bytes() / ranks;
  if (both > available) {
    throw_error<ConfigError>(
        "--device-memory and --host-memory ask for {} per rank, but only {} of memory is free; "
        "lower one of them",
        format_bytes(both), format_bytes(available));
  }
  return budgets;
}

}  // namespace strata::engine

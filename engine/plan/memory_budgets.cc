#include "engine/plan/memory_budgets.h"

#include <algorithm>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"

namespace strata::engine {

namespace {

// What is left alone: of host memory for other programs and the page cache, of a GPU, whose context
// and libraries are charged, for a screen and kernels that are loaded late.
constexpr std::int64_t kHostMargin = 10;  // one in so many
constexpr std::int64_t kGpuMargin = 50;

std::int64_t less_margin(std::int64_t free_bytes, std::int64_t one_in) {
  return std::max<std::int64_t>(0, free_bytes - std::max(kGiB, free_bytes / one_in));
}

MemoryBudgets budgets_with_gpu(const Options& options, const comm::Topology& topology,
                               const Gpu& gpu) {
  MemoryBudgets budgets;
  budgets.device_bytes =
      options.device_memory.value_or(gpu.context_bytes + less_margin(gpu.free_bytes, kGpuMargin));
  budgets.host_bytes = options.host_memory ? *options.host_memory / topology.local_world_size
                                           : usable_memory_bytes(topology);
  if (budgets.device_bytes > gpu.context_bytes + gpu.free_bytes) {
    throw_error<ConfigError>("--device-memory asks for {}, but {} of {} is free",
                             format_bytes(budgets.device_bytes),
                             format_bytes(gpu.context_bytes + gpu.free_bytes), gpu.name);
  }
  const std::int64_t available = available_memory_bytes() / topology.local_world_size;
  if (budgets.host_bytes > available) {
    throw_error<ConfigError>("--host-memory asks for {} per rank, but only {} of memory is free",
                             format_bytes(budgets.host_bytes), format_bytes(available));
  }
  return budgets;
}

}  // namespace

std::int64_t usable_memory_bytes(const comm::Topology& topology) {
  return less_margin(available_memory_bytes(), kHostMargin) / topology.local_world_size;
}

MemoryBudgets resolve_memory_budgets(const Options& options, const comm::Topology& topology,
                                     const RankDevice& device) {
  if (device.gpu) return budgets_with_gpu(options, topology, device.gpu->gpu);
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
  const std::int64_t available = available_memory_bytes() / ranks;
  if (budgets.host_bytes > available || budgets.device_bytes > available - budgets.host_bytes) {
    throw_error<ConfigError>(
        "--device-memory and --host-memory ask for {} and {} per rank, but only {} of memory is "
        "free; lower one of them",
        format_bytes(budgets.device_bytes), format_bytes(budgets.host_bytes),
        format_bytes(available));
  }
  return budgets;
}

}  // namespace strata::engine

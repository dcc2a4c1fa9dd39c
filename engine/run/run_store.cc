#include "engine/run/run_store.h"

#include <chrono>

#include "kernels/base/error.h"

namespace strata::engine {

std::vector<io::VolumeDirectory> store_directories(const Options& options) {
  if (!options.nvme.empty()) return io::parse_directories(options.nvme);
  if (!options.run.empty()) return {{options.run, 0}};
  return {};
}

const char* store_option(const Options& options) {
  return options.nvme.empty() ? "--run" : "--nvme";
}

std::int64_t store_bytes(const RunSetup& setup, std::size_t /*directories*/) {
  const std::int64_t data_bytes = setup.plan.total_bytes(offload::Tier::nvme);
  if (data_bytes == 0) return 0;
  return setup.topology.local_world_size * data_bytes;
}

std::unique_ptr<io::Volume> create_store(const RunSetup& setup, const io::EngineChoice& engine,
                                         Tracer* tracer) {
  const std::int64_t data_bytes = setup.plan.total_bytes(offload::Tier::nvme);
  if (data_bytes == 0) return nullptr;
  io::VolumeOptions options;
  options.directories = store_directories(setup.options);
  options.capacity_bytes = data_bytes;
  options.engine = engine;
  options.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(setup.options.io_timeout * 1000));
  return io::create_volume(options, tracer);
}

}  // namespace strata::engine

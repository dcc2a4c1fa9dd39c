#include "engine/run/run_store.h"

#include <chrono>
#include <span>
#include <utility>

#include "kernels/base/error.h"

namespace strata::engine {

namespace {

std::vector<std::vector<store::Parameter>> parameters_of(
    const std::vector<models::UnitSpec>& units) {
  std::vector<std::vector<store::Parameter>> all;
  for (const models::UnitSpec& unit : units) {
    std::vector<store::Parameter>& parameters = all.emplace_back();
    for (const models::TensorSpec& tensor : unit.tensors) {
      parameters.push_back(
          {tensor.name, tensor.rows, tensor.cols, tensor.first_row, tensor.offset_elements});
    }
  }
  return all;
}

bool is_durable(const RunSetup& setup) {
  return setup.plan.durability != offload::Durability::none;
}

}  // namespace

store::Manifest manifest_of(const RunSetup& setup) {
  return store::make_manifest(setup.plan, parameters_of(setup.units));
}

io::EngineOptions engine_options(const Options& options, const io::EngineChoice& engine) {
  io::EngineOptions result;
  result.kind = engine.kind;
  result.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.io_timeout * 1000));
  return result;
}

std::vector<io::VolumeDirectory> store_directories(const Options& options) {
  if (!options.nvme.empty()) return io::parse_directories(options.nvme);
  if (!options.run.empty()) return {{options.run, 0}};
  return {};
}

const char* store_option(const Options& options) {
  return options.nvme.empty() ? "--run" : "--nvme";
}

std::int64_t store_bytes(const RunSetup& setup, std::size_t directories) {
  const std::int64_t data_bytes = setup.plan.total_bytes(offload::Tier::nvme);
  if (data_bytes == 0) return 0;
  const std::int64_t metadata_bytes =
      is_durable(setup) ? store::store_metadata_bytes(manifest_of(setup)) : 0;
  return setup.topology.local_world_size *
         (data_bytes + static_cast<std::int64_t>(directories) * metadata_bytes);
}

std::string shared_run_id(comm::Communicator& comm) {
  std::string id = store::new_run_id();
  comm.broadcast(std::as_writable_bytes(std::span(id)), 0);
  return id;
}

RunStore create_store(const RunSetup& setup, const std::string& run_id,
                      const io::EngineChoice& engine, Tracer* tracer) {
  RunStore store;
  const std::int64_t data_bytes = setup.plan.total_bytes(offload::Tier::nvme);
  if (data_bytes == 0) return store;
  io::VolumeOptions options;
  options.directories = store_directories(setup.options);
  options.capacity_bytes = data_bytes;
  options.engine = engine_options(setup.options, engine);
  if (!is_durable(setup)) {
    store.volume = io::create_volume(options, tracer);
    return store;
  }
  const store::StoreIdentity identity{run_id, setup.topology.rank, setup.topology.world_size,
                                      setup.options.run};
  store.manifest = manifest_of(setup);
  options.file_name = store::store_file_name(identity);
  options.metadata_bytes = store::store_metadata_bytes(store.manifest);
  store.volume = io::create_volume(options, tracer);
  store.header = store::write_header(*store.volume, identity, store.manifest);
  store.volume->publish();
  return store;
}

RunStore described_store(std::unique_ptr<io::Volume> volume, const RunSetup& setup) {
  RunStore store;
  store.volume = std::move(volume);
  try {
    store.volume->reserve();
  } catch (const ConfigError& error) {
    throw_error<ConfigError>("{}: {}", store_option(setup.options), error.what());
  }
  store.header = store::read_header(*store.volume);
  store.manifest = manifest_of(setup);
  store.is_new = false;
  return store;
}

std::unique_ptr<io::Volume> scratch_beside(const io::Volume& volume, std::int64_t bytes,
                                           const io::EngineOptions& engine) {
  io::VolumeOptions options;
  for (int d = 0; d < volume.devices(); ++d) {
    // As the store's stripes are dealt, so that nothing is measured for it.
    options.directories.push_back(
        {volume.device_path(d), static_cast<double>(volume.share(d).weight)});
  }
  options.capacity_bytes = bytes;
  options.engine = engine;
  try {
    return io::create_volume(options, nullptr);
  } catch (const ConfigError&) {
    return nullptr;
  }
}

}  // namespace strata::engine

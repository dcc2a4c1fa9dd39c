#include "engine/run/run_store.h"

#include <chrono>
#include <span>

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

store::Manifest manifest_of(const RunSetup& setup) {
  return store::make_manifest(setup.plan, parameters_of(setup.units));
}

}  // namespace

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
  const std::int64_t metadata_bytes = store::store_metadata_bytes(manifest_of(setup));
  return setup.topology.local_world_size *
         (data_bytes + static_cast<std::int64_t>(directories) * metadata_bytes);
}

std::string shared_run_id(comm::Communicator& comm) {
  std::string id = store::new_run_id();
  comm.broadcast(std::as_writable_bytes(std::span(id)), 0);
  return id;
}

std::unique_ptr<io::Volume> create_store(const RunSetup& setup, const std::string& run_id,
                                         const io::EngineChoice& engine, Tracer* tracer) {
  const std::int64_t data_bytes = setup.plan.total_bytes(offload::Tier::nvme);
  if (data_bytes == 0) return nullptr;
  const store::Manifest manifest = manifest_of(setup);
  const store::StoreIdentity identity{run_id, setup.topology.rank, setup.topology.world_size,
                                      setup.options.run};
  io::VolumeOptions options;
  options.directories = store_directories(setup.options);
  options.file_name = store::store_file_name(identity);
  options.capacity_bytes = data_bytes;
  options.metadata_bytes = store::store_metadata_bytes(manifest);
  options.engine.kind = engine.kind;
  options.engine.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(setup.options.io_timeout * 1000));
  std::unique_ptr<io::Volume> volume = io::create_volume(options, tracer);
  store::write_header(*volume, identity, manifest);
  volume->publish();
  return volume;
}

}  // namespace strata::engine

// The store of a run's state on NVMe: where it lies, how large it is, its creation and what its
// files say of it. Its format is the business of offload/store, its striping that of io/volume.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/run_setup.h"
#include "io/volume.h"
#include "offload/comm/communicator.h"
#include "offload/store/store_files.h"

namespace strata::engine {

// --nvme, or the folder of --run; empty when there is neither.
std::vector<io::VolumeDirectory> store_directories(const Options& options);

// The option that they come from, for errors: "--nvme" or "--run".
const char* store_option(const Options& options);

// What the stores of all ranks of this host need together, in `directories` directories.
std::int64_t store_bytes(const RunSetup& setup, std::size_t directories);

// What a run describes its store with.
store::Manifest manifest_of(const RunSetup& setup);

io::EngineOptions engine_options(const Options& options, const io::EngineChoice& engine);

// This rank's store, and in a durable run what its files say of it.
struct RunStore {
  std::unique_ptr<io::Volume> volume;  // null: nothing is ever on NVMe
  store::FileHeader header;            // of directory 0
  store::Manifest manifest;
  bool is_new = true;  // nothing of a run is in it yet
};

// A new store's name, the same on all ranks. Collective.
std::string shared_run_id(comm::Communicator& comm);

// Makes this rank's store, without state. In a durable run it is described in its files, which are
// deleted with the volume unless it is told to keep them; otherwise they have no name. Throws
// ConfigError or IoError.
RunStore create_store(const RunSetup& setup, const std::string& run_id,
                      const io::EngineChoice& engine, Tracer* tracer);

// What a volume that holds a store says of it, with the space reserved that was given back. Throws
// ConfigError naming the option when that is gone, IoError.
RunStore described_store(std::unique_ptr<io::Volume> volume, const RunSetup& setup);

// Space in the same directories that holds nothing, for measuring them; null when there is no room.
std::unique_ptr<io::Volume> scratch_beside(const io::Volume& volume, std::int64_t bytes,
                                           const io::EngineOptions& engine);

}  // namespace strata::engine

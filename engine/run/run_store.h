// The store of a run's state on NVMe: where it lies, how large it is, and its creation. Its format
// is the business of offload/store, its striping that of io/volume.h.
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

// A new run's name, the same on all ranks. Collective.
std::string shared_run_id(comm::Communicator& comm);

// Makes this rank's store, described in its files but without state; null when the plan keeps
// nothing on NVMe. It is deleted with the returned volume. Throws ConfigError or IoError.
std::unique_ptr<io::Volume> create_store(const RunSetup& setup, const std::string& run_id,
                                         const io::EngineChoice& engine, Tracer* tracer);

}  // namespace strata::engine

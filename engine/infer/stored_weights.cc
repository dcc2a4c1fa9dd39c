#include "engine/infer/stored_weights.h"

#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "engine/checkpoint/commit_fillers.h"
#include "engine/checkpoint/store_pointer.h"
#include "engine/step/agreement.h"
#include "engine/step/shared_text.h"
#include "io/volume_directories.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

// As rank 0 sees the folder.
StorePointer shared_pointer(const std::string& folder, comm::Communicator& comm) {
  const std::string text = broadcast_text(
      comm, agree(comm, [&]() -> std::string {
        if (comm.rank() != 0) return "";
        const auto pointer = read_store_pointer(folder);
        if (pointer) return text_of(*pointer);
        throw_error<ConfigError>("--model {}: the run has no checkpoint yet", folder);
      }));
  return parse_store_pointer(text, folder);
}

std::vector<std::string> directories_of(const Options& options) {
  std::vector<std::string> directories;
  if (!options.nvme.empty()) {
    for (const io::VolumeDirectory& directory : io::parse_directories(options.nvme)) {
      directories.push_back(directory.path);
    }
  }
  directories.push_back(options.run);
  return directories;
}

io::EngineOptions engine_of(const Options& options) {
  io::EngineOptions engine;
  engine.kind = io::choose_engine(io::parse_engine(options.io_engine)).kind;
  engine.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.io_timeout * 1000));
  return engine;
}

}  // namespace

StoredWeights::StoredWeights(const Options& options, Dtype precision, comm::Communicator& comm,
                             const FailureLatch& failure)
    : folder_(options.run),
      store_(std::make_unique<OpenedStore>(
          shared_pointer(options.run, comm), directories_of(options), engine_of(options),
          options.resume_step, comm, io::VolumeAccess::shared, &failure)) {
  agree(comm, [&] {
    const auto commit = store_->commit();
    if (!commit) throw_error<ConfigError>("--model {}: the run has no checkpoint yet", folder_);
    step_ = commit->step;
    const Dtype stored = store_->manifest().dtypes.weights;
    if (stored == precision) return;
    throw_error<ConfigError>(
        "--precision {}: the weights of the run in {} are {}; strata export {} DIR --export-dtype "
        "{} writes a model to read so",
        name_of(precision), folder_, name_of(stored), folder_, name_of(precision));
  });
}

std::string StoredWeights::description() const {
  return fmt::format("step {} of the run in {}", step_, folder_);
}

std::unique_ptr<StateFiller> StoredWeights::filler(WorkerSet& workers) {
  return std::make_unique<ReshardFiller>(*store_, workers);
}

}  // namespace strata::engine

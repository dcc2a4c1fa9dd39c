#include "engine/run/inference_run.h"

#include "engine/run/pretrained.h"
#include "engine/run/storage_check.h"
#include "engine/step/agreement.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"
#include "models/presets.h"

namespace strata::engine {

namespace {

void check_storage(const RunSetup& setup) {
  const NvmeSpace space = check_nvme_space(setup);
  if (space.needed_bytes == 0 || !space.directories.empty()) return;
  throw_error<ConfigError>(
      "{} of weights and activations fit neither --device-memory nor --host-memory, and no "
      "directory is given for them; use --nvme DIR{}",
      format_bytes(space.needed_bytes), setup.options.pass > 1 ? " or a smaller --pass" : "");
}

void check_weights(const Options& options) {
  if (!options.run.empty() || options.from_scratch || !models::is_model_name(options.model)) return;
  throw_error<ConfigError>(
      "--model {} is a shape and has no weights: name the folder of a model or of a run, or "
      "org/name in the Hugging Face cache; random weights take --from-scratch",
      options.model);
}

// A rank that shares its host keeps to its cores, so that its memory is next to them.
const RunSetup& settle(const RunSetup& setup) {
  if (setup.topology.local_world_size > 1) stay_on(setup.cpus);
  spread_memory();
  return setup;
}

}  // namespace

std::string ReadableModel::weights_text() const {
  return stored != nullptr ? stored->description() : engine::weights_text(setup, folder.get());
}

ReadableModel read_model(const Options& options, Ranks& ranks) {
  comm::Communicator& comm = ranks.comm;
  ReadableModel model;
  model.setup = agree(comm, [&] {
    check_weights(options);
    RunSetup setup = make_run_setup(options, comm.topology(), comm.staging_bytes(),
                                    offload::kBlockElements, Purpose::inference, ranks.device);
    check_storage(setup);
    return setup;
  });
  const RunSetup& setup = model.setup;
  if (!options.run.empty() && !options.from_scratch) {
    model.stored =
        std::make_unique<StoredWeights>(options, setup.shape.precision, comm, ranks.failure);
  } else {
    model.folder = agree(comm, [&] { return open_pretrained(setup); });
  }
  return model;
}

InferenceRun::InferenceRun(ReadableModel& model, Ranks& ranks)
    : setup_(settle(model.setup)),
      session_(setup_, ranks.comm, ranks.failure),
      inference_(setup_, parts_with(model)) {
  filler_.reset();
  model.stored.reset();
  model.folder.reset();
}

TrainerParts InferenceRun::parts_with(ReadableModel& model) {
  TrainerParts parts = session_.trainer_parts();
  if (model.stored != nullptr) {
    filler_ = model.stored->filler(parts.workers);
    parts.filler = filler_.get();
  } else {
    parts.filler = model.folder.get();
  }
  return parts;
}

}  // namespace strata::engine

#include "engine/infer/inference.h"

#include <exception>

#include "engine/step/state_access.h"
#include "kernels/base/error.h"

namespace strata::engine {

Inference::Inference(const RunSetup& setup, const TrainerParts& parts)
    : setup_(setup),
      parts_(parts),
      comm_staging_(parts.comm.attach(parts.device)),
      compute_(parts.device.make_stream("compute")),
      store_(setup.plan, parts.device, parts.storage, parts.workers),
      weights_(store_, parts.device, *compute_, parts.comm, parts.failure, parts.tracer),
      activations_(store_, parts.device, *compute_, parts.failure),
      pass_(setup.shape, setup.units, setup.plan, parts.device, *compute_, weights_, activations_,
            nullptr),
      loader_(setup.batch, parts.device, *compute_),
      results_(parts.device.allocate(kResultsTag, kResultsBytes)),
      host_results_(parts.device.allocate_pinned(kResultsTag, kResultsBytes)) {
  if (setup.decode.positions > 0) {
    decode_.emplace(setup.decode, setup.units, setup.plan, parts.device, *compute_, weights_);
  }
  load();
}

void Inference::load() {
  const PinnedBuffer staging = parts_.device.allocate_pinned(
      offload::kLoadingStagingTag, offload::loading_staging_bytes(setup_.plan));
  StateAccess access(store_, parts_.device, staging.span());
  if (parts_.filler != nullptr) {
    const PinnedBuffer blocks =
        parts_.device.allocate_pinned(kStoredBlocksTag, stored_blocks_bytes(setup_));
    parts_.filler->fill(store_, access, blocks.span());
  } else {
    initialise_state(access, store_, parts_.workers, setup_.units, setup_.options.seed,
                     setup_.topology.rank);
  }
}

// Members use compute until their end, but what compute still runs uses them.
Inference::~Inference() {
  // Threads that wait for this one, when it left in the middle of a pass, are to stop waiting.
  if (std::uncaught_exceptions() > 0) {
    parts_.failure.set(std::make_exception_ptr(Error("the run has ended")));
  }
  try {
    compute_->synchronize();
  } catch (...) {  // the run's failure, which has ended the work on every stream
  }
}

EvaluationTotals Inference::evaluate(const Samples& data, std::int64_t samples) {
  return engine::evaluate(
      {setup_.batch, pass_, loader_, *compute_, parts_.comm, results_, host_results_}, data,
      samples, nullptr);
}

}  // namespace strata::engine

#include "engine/infer/inference.h"

#include "engine/step/state_access.h"

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
      loader_(setup.batch, parts.device, *compute_, store_.ledger()),
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
  const PinnedBuffer blocks =
      parts_.device.allocate_pinned(kStoredBlocksTag, stored_blocks_bytes(setup_));
  fill_state(parts_, setup_, store_, access, blocks.span());
}

EvaluationTotals Inference::evaluate(const Samples& data, std::int64_t samples) {
  return engine::evaluate(
      {setup_.batch, pass_, loader_, *compute_, parts_.comm, results_, host_results_}, data,
      samples, nullptr);
}

}  // namespace strata::engine

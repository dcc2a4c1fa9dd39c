#include "engine/step/trainer_parts.h"

#include "engine/step/state_access.h"

namespace strata::engine {

void fill_state(const TrainerParts& parts, const RunSetup& setup, offload::StateStore& store,
                StateAccess& access, AlignedSpan blocks) {
  if (parts.filler != nullptr) {
    parts.filler->fill(store, access, blocks);
  } else {
    initialise_state(access, store, parts.workers, setup.units, setup.options.seed,
                     setup.topology.rank);
  }
}

}  // namespace strata::engine

// StateFiller: what a trainer's state is at its start: initial values, or what another run left.
#pragma once

#include "engine/step/state_access.h"
#include "kernels/base/aligned_buffer.h"
#include "offload/state_store.h"

namespace strata::engine {

class StateFiller {
 public:
  virtual ~StateFiller() = default;

  // Fills every lasting state of this rank's shards, padding included, on its tier; called once, on
  // every rank, before the first step. `staging`: the plan's checkpoint staging, idle meanwhile;
  // empty without a run folder.
  virtual void fill(offload::StateStore& store, StateAccess& access, AlignedSpan staging) = 0;
};

}  // namespace strata::engine

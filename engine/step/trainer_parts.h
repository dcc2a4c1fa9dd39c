// TrainerParts: what a model's state and its passes run on, in training and in inference.
#pragma once

#include "engine/plan/run_setup.h"
#include "engine/step/state_filler.h"
#include "engine/step/update_gate.h"
#include "io/storage.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/trace.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/device.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

// All must outlive what is made of them. `workers` are for what streams by (updates, gradients,
// checksums), not those of the device: see kernels/base/worker_set.h. `storage` may be null when
// the plan has no NVMe bytes, `tracer` when nothing is traced, `requests` when nobody asks. Ops are
// attached to the device.
struct TrainerParts {
  Device& device;
  WorkerSet& workers;
  comm::Communicator& comm;
  FailureLatch& failure;
  io::Storage* storage;
  Tracer* tracer;
  StateFiller* filler = nullptr;  // null: initial values; used by the constructor only
  StepRequests* requests = nullptr;
};

// All state on its tiers: from the filler, which may use `blocks`, or without one the model's
// initial values.
void fill_state(const TrainerParts& parts, const RunSetup& setup, offload::StateStore& store,
                StateAccess& access, AlignedSpan blocks);

}  // namespace strata::engine

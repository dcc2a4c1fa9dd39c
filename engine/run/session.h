// Session: the machine side of a run: ranks, cores, device, storage, in the order in which they are
// set up and taken down. Everything that a Trainer runs on. Making one is
// collective. Thread contract: one thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/cost/compute_cost.h"
#include "engine/cost/machine_rates.h"
#include "engine/cost/step_cost.h"
#include "engine/plan/run_setup.h"
#include "engine/run/compute_device.h"
#include "engine/run/nvme_ledger.h"
#include "engine/run/run_store.h"
#include "engine/step/trainer.h"
#include "io/volume.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/trace.h"
#include "kernels/base/worker_set.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

// A new store for this rank, under a name that is new. Collective.
RunStore make_new_store(const RunSetup& setup, comm::Communicator& comm,
                        const io::EngineChoice& engine, Tracer* tracer);

class Session {
 public:
  // Opens or makes the store of this rank; collective, with its own agreement.
  using OpenStore = std::function<RunStore(const io::EngineChoice&, Tracer*)>;

  // All must outlive the session. Measures the machine and settles the arithmetic,
  // the same on all ranks. Without `open_store` it makes a new store.
  Session(const RunSetup& setup, comm::Communicator& comm, FailureLatch& failure,
          const OpenStore& open_store = {});

  TrainerParts trainer_parts();
  const MachineRates& rates() const { return rates_; }
  // Of a step of training. See step_cost().
  StepCost bound(double rows_share = 1) const;
  Device& device() { return *compute_device_.device; }
  // Null when nothing is ever on NVMe.
  io::Volume* volume() { return store_.volume.get(); }
  RunStore& store() { return store_; }
  const MeasuringTraffic& measuring_traffic() const { return measuring_traffic_; }
  // Which I/O engine carries its transfers, and why.
  const io::EngineChoice& engine_choice() const { return engine_choice_; }
  Tracer* tracer() { return tracer_.get(); }

 private:
  void measure();

  const RunSetup& setup_;
  comm::Communicator& comm_;
  FailureLatch& failure_;
  std::unique_ptr<Tracer> tracer_;
  WorkerSet compute_workers_;
  WorkerSet streaming_workers_;
  ComputeDevice compute_device_;
  io::EngineChoice engine_choice_;
  RunStore store_;
  MachineRates rates_;
  ComputeCost compute_;
  MeasuringTraffic measuring_traffic_;
};

}  // namespace strata::engine

// Session: the machine side of a run: ranks, cores, device, storage, in the order in which they are
// set up and taken down. Everything that a Trainer runs on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/plan/machine_rates.h"
#include "engine/plan/run_setup.h"
#include "engine/step/trainer.h"
#include "io/volume.h"
#include "kernels/base/budget.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/trace.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/cpu_device.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

class Session {
 public:
  // `failure` and `comm` must outlive the session. Makes the run's store, which is deleted with the
  // session; measures the machine and settles the arithmetic, the same on all ranks.
  Session(const RunSetup& setup, comm::Communicator& comm, FailureLatch& failure);

  TrainerParts trainer_parts();
  const MachineRates& rates() const { return rates_; }
  CpuDevice& device() { return device_; }
  // Null when the plan keeps nothing on NVMe.
  io::Volume* volume() { return volume_.get(); }
  // The paths of its files.
  std::vector<std::string> store_files() const;
  // Which I/O engine carries its transfers, and why.
  const io::EngineChoice& engine_choice() const { return engine_choice_; }
  Tracer* tracer() { return tracer_.get(); }

 private:
  comm::Communicator& comm_;
  FailureLatch& failure_;
  std::unique_ptr<Tracer> tracer_;
  WorkerSet workers_;
  Budget host_budget_;
  CpuDevice device_;
  io::EngineChoice engine_choice_;
  std::unique_ptr<io::Volume> volume_;
  MachineRates rates_;
};

}  // namespace strata::engine

// Session: the machine side of a run: ranks, cores, device, storage, in the order in which they are
// set up and taken down. Everything that a Trainer runs on.
#pragma once

#include <memory>
#include <string>

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

// Where this run's state goes on NVMe: --nvme, or the run's folder. Throws ConfigError when the
// plan needs NVMe and there is neither.
std::string nvme_directory(const RunSetup& setup);

class Session {
 public:
  // `failure` and `comm` must outlive the session. Reserves NVMe space; measures the machine and
  // settles the arithmetic, the same on all ranks.
  Session(const RunSetup& setup, comm::Communicator& comm, FailureLatch& failure);

  TrainerParts trainer_parts();
  const MachineRates& rates() const { return rates_; }
  CpuDevice& device() { return device_; }
  io::Storage* storage() { return storage_.get(); }
  io::Volume* volume() { return nullptr; }
  Tracer* tracer() { return tracer_.get(); }

 private:
  comm::Communicator& comm_;
  FailureLatch& failure_;
  std::unique_ptr<Tracer> tracer_;
  WorkerSet workers_;
  Budget host_budget_;
  CpuDevice device_;
  std::unique_ptr<io::Storage> storage_;
  MachineRates rates_;
};

}  // namespace strata::engine

// SmallMachine: a device with ops for a small model, in its budgets, as a Session sets it up.
#pragma once

#include <memory>

#include "engine/plan/run_setup.h"
#include "kernels/base/bytes.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/cpu_device.h"
#include "kernels/ops/cpu_ops.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

inline Options small_options() {
  Options options;
  options.model = "gpt2:layers=2,hidden=64,heads=2,context=32,vocab=256";
  options.threads = 1;
  options.global_batch = 4;
  options.micro_batch = 2;
  options.device_memory = 64 * kMiB;
  options.host_memory = 64 * kMiB;
  return options;
}

class SmallMachine {
 public:
  explicit SmallMachine(const Options& options)
      : comm_(comm::make_single_rank_communicator()),
        setup_(make_run_setup(options, comm_->topology(), comm_->staging_bytes())),
        workers_(1, {}),
        host_budget_("host memory", setup_.plan.host_memory_bytes),
        device_({setup_.plan.device_memory_bytes, -1}, host_budget_, workers_, failure_, nullptr) {
    ops::attach_cpu_ops(device_, setup_.isa, setup_.op_limits, setup_.shape.precision, {});
  }

  const RunSetup& setup() const { return setup_; }
  CpuDevice& device() { return device_; }
  WorkerSet& workers() { return workers_; }
  comm::Communicator& comm() { return *comm_; }

  // Whether no more is held than before, and no budget went beyond its plan.
  bool kept_its_budgets(std::int64_t device_held_bytes, std::int64_t host_held_bytes) {
    const Budget& device = device_.device_budget();
    return device.held_bytes() == device_held_bytes &&
           host_budget_.held_bytes() == host_held_bytes &&
           device.peak_bytes() <= setup_.plan.total_bytes(offload::Tier::device) &&
           host_budget_.peak_bytes() <= setup_.plan.total_bytes(offload::Tier::host);
  }

 private:
  FailureLatch failure_;
  std::unique_ptr<comm::Communicator> comm_;
  RunSetup setup_;
  WorkerSet workers_;
  Budget host_budget_;
  CpuDevice device_;
};

}  // namespace strata::engine

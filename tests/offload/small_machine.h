// What the stores of offload/ run on: a small cpu device, storage in memory that can be made slow
// or broken, and a plan. Members as a run has them.
#pragma once

#include <memory>

#include "io/fault_storage.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/cpu_device.h"
#include "offload/comm/communicator.h"
#include "offload/state_store.h"
#include "tests/offload/small_plan.h"

namespace strata::offload::testing {

inline constexpr io::FaultRules kSlow{.seed = 7, .delay_us_max = 300};

struct SmallMachine {
  SmallMachine(const PlanInput& input, const io::FaultRules& rules)
      : plan(plan_of(input)),
        storage(io::make_fault_storage(plan.total_bytes(Tier::nvme) + 1, rules)),
        store(plan, device, storage.get(), workers) {}

  Plan plan;
  FailureLatch failure;
  WorkerSet workers{2};
  Budget host{"host memory", 16 * kMiB};
  CpuDevice device{{16 * kMiB, -1}, host, workers, failure, nullptr};
  std::unique_ptr<Stream> compute = device.make_stream("compute");
  std::unique_ptr<comm::Communicator> comm = comm::make_single_rank_communicator();
  std::unique_ptr<io::Storage> storage;
  StateStore store;
};

}  // namespace strata::offload::testing

// StoredWeights: the working weights of a run's commit, for inference: however many ranks made the
// run, and on whatever tiers. Only reads, so that a run is left as it is.
//
// Collective, in the order of declarations; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/checkpoint/opened_store.h"
#include "engine/options/options.h"
#include "engine/step/state_filler.h"
#include "io/engine_choice.h"
#include "kernels/base/dtype.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/worker_set.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

class StoredWeights {
 public:
  // Of the run in options.run: its newest commit, or that of --resume-step. Its store is looked for
  // in --nvme, in the folder, and where it was made. `failure` and `comm` must outlive this. Throws
  // ConfigError when there is none, or its weights are not of this precision; what OpenedStore
  // throws.
  StoredWeights(const Options& options, Dtype precision, comm::Communicator& comm,
                const FailureLatch& failure);

  std::int64_t step() const { return step_; }
  std::string description() const;  // "step 50 of the run in DIR"

  // Every block verified. Uses this object and `workers`.
  std::unique_ptr<StateFiller> filler(WorkerSet& workers);

 private:
  std::string folder_;
  std::unique_ptr<OpenedStore> store_;
  std::int64_t step_ = 0;
};

}  // namespace strata::engine

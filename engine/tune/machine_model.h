// MachineModel: what steps take on a machine, by the size of their micro-batches and the formats of
// their state: the rates and costs that were measured for it, or that follow from a description.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "engine/cost/compute_cost.h"
#include "engine/cost/machine_rates.h"
#include "engine/tune/plan_search.h"

namespace strata::engine {

struct MicroBatchModel {
  MachineRates rates;
  ComputeCost compute;  // with recompute
};

// What an update depends on: --moments, --grad-dtype.
using StateFormats = std::pair<std::string, std::string>;
StateFormats formats_of(const Options& options);

struct MachineModel {
  std::map<std::int64_t, MicroBatchModel> of_micro_batch;  // by --micro-batch
  // Of formats for which that of `of_micro_batch` does not hold.
  std::map<StateFormats, double> optimizer_bytes_per_s;
  std::string origin;  // of the rates, in a line for people

  // Refers to this object. Of setups whose micro-batch is one of these.
  StepModel step_model() const;
};

}  // namespace strata::engine

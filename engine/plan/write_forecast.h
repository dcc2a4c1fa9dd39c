// The bytes that a run will write to its drives, from the plan: what drives wear out by.
#pragma once

#include <cstdint>

#include "engine/plan/run_setup.h"

namespace strata::engine {

// Of one rank. Upper bounds: a last, smaller pass is counted as a full one, and so is a skipped
// step. Without samples, which write where activations are on NVMe.
struct WriteForecast {
  std::int64_t start_bytes = 0;       // the initial state
  std::int64_t step_bytes = 0;        // one step with its update
  std::int64_t evaluation_bytes = 0;  // one evaluation

  std::int64_t total_bytes(std::int64_t steps, std::int64_t evaluations) const {
    return start_bytes + steps * step_bytes + evaluations * evaluation_bytes;
  }
};

// `validation_samples`: of one evaluation, over all ranks; 0: there is none.
WriteForecast forecast_writes(const RunSetup& setup, std::int64_t validation_samples);

}  // namespace strata::engine

// Runs with the backend that has the simulated device in it.
#pragma once

#include <stdlib.h>

#include <string>

#include "tests/engine/run/durable_runs.h"

namespace strata::engine {

class CudaRuns : public DurableRuns {
 protected:
  explicit CudaRuns(int steps) : DurableRuns(steps) {
    ::setenv("STRATA_CUDA_BACKEND", STRATA_SIMULATED_BACKEND, 1);
  }

  static Words small_model(const std::string& precision) {
    return {"--model",         "gpt2:layers=2,hidden=32,heads=2,context=32",
            "--precision",     precision,
            "--matmul-dtype",  "auto",
            "--warmup",        "0",
            "--lr-schedule",   "constant",
            "--device-memory", "320MiB"};  // with 256 MiB of a context
  }
  static Words placed(const std::string& tier) {
    return {"--place", "all=" + tier, "--activations", tier};
  }
  // Of losses, relative to those of the same run where its sums have another order: f32 rounds by
  // 6e-8, and a sum of 1e3 terms is off by less than 1e-4 of it.
  static constexpr double kF32Tolerance = 1e-4;
};

}  // namespace strata::engine

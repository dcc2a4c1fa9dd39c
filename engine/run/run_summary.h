// RunSummary: what is said of a run at its end.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "engine/cost/step_cost.h"
#include "io/storage.h"
#include "kernels/base/budget.h"

namespace strata::engine {

struct RunSummary {
  std::int64_t steps = 0;            // at its end
  std::int64_t first_step = 1;       // of this process
  std::int64_t skipped = 0;          // steps without an update
  std::int64_t untrained = 0;        // of those, the ones without a target
  std::optional<double> loss_first;  // of this process's steps with a target
  std::optional<double> loss_last;
  std::optional<double> val_loss_first;
  std::optional<double> val_loss_last;
  std::optional<std::int64_t> committed_step;
  double trained_s = 0;  // without the first step, which warms up
  double bounded_s = 0;  // of that, the steps whose bound is known
  double bounds_s = 0;   // and the sum of their bounds
  double wall_s = 0;
  std::int64_t nvme_held_bytes = 0;
  io::StorageTraffic nvme;
  bool of_rank_0 = false;  // of several

  // Steps that this process trained.
  std::int64_t trained() const { return steps - first_step + 1; }
  // 0 where no step but the first was trained.
  double mean_step_s() const {
    return trained() > 1 ? trained_s / static_cast<double>(trained() - 1) : 0.0;
  }
};

// `ledger`: the NvmeLedger's part.
std::string summary_text(const RunSummary& summary, const Budget& device, const Budget& host,
                         const StepCost& bound, const std::string& ledger);
std::string summary_json(const RunSummary& summary, const Budget& device, const Budget& host,
                         const StepCost& bound, nlohmann::json ledger);

}  // namespace strata::engine

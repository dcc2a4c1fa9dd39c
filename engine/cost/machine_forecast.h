// MachineForecast: what a step of a planned run would take on a machine, as `plan` shows it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/cost/step_cost.h"
#include "engine/cost/step_prediction.h"

namespace strata::engine {

struct MachineForecast {
  StepCost cost;
  StepPrediction prediction;
  std::int64_t tokens_per_step = 0;  // of all ranks
  double tokens_per_s() const { return static_cast<double>(tokens_per_step) / prediction.step_s; }
};

// The bound's table and what the step and `steps` of them take (0: how many is not known).
std::string forecast_text(const MachineForecast& forecast, std::int64_t steps);
// {"bound":…, "step_s":…, "tokens_per_s":…, "run_days":…}
nlohmann::json forecast_json(const MachineForecast& forecast, std::int64_t steps);

}  // namespace strata::engine

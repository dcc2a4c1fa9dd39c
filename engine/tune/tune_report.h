// What tune found, for people (a table, and a command for each plan) and for programs (JSON).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/cost/machine_rates.h"
#include "engine/plan/write_forecast.h"
#include "engine/tune/measured_steps.h"
#include "engine/tune/plan_search.h"

namespace strata::engine {

struct TuneReport {
  const Options& base;  // what the user gave
  std::span<const RankedPlan> plans;
  std::span<const MeasuredSteps> measured;  // of each plan; empty: not measured
  std::int64_t steps = 0;                   // of the run; 0: not known
  std::span<const DriveLife> drives;
  std::string origin;              // of the rates, in a line
  DriveRates nvme;                 // of a rank
  std::vector<std::string> notes;  // on the commands
};

std::string tune_text(const TuneReport& report);
nlohmann::json tune_json(const TuneReport& report);

}  // namespace strata::engine

// What tune found, for people (a table, and a command for each plan) and for programs (JSON).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/cost/machine_rates.h"
#include "engine/plan/write_forecast.h"
#include "engine/tune/plan_search.h"

namespace strata::engine {

// What training with a plan took.
struct MeasuredSteps {
  std::vector<double> step_s;         // of every step measured
  std::vector<std::string> failures;  // one line for each time that it ended in an error
  double median_s() const;            // 0: none
};

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

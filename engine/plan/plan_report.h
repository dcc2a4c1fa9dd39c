// The plan for people (a table) and for programs (JSON).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/plan/run_setup.h"

namespace strata::engine {

// Bytes per tier by kind, bytes moved per step and link, whether it fits; all of one rank, with the
// totals of a host beside them where it has several.
std::string plan_table(const RunSetup& setup);
nlohmann::json plan_json(const RunSetup& setup);

// One line on the model, one on the batch, one on the optimizer's timing: what a run is.
std::string run_description(const RunSetup& setup);

}  // namespace strata::engine

// A StepCost as `train` shows it: to people a table of times per phase and resource with what the
// cores do, and for programs the same as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/cost/step_cost.h"

namespace strata::engine {

// Lines; rows of zeros are left out.
std::string bound_table(const StepCost& cost);

// {"seconds":…, "limit":"cores", "moved_s":…, "forward":{"bound_s":…, "cores_s":…, "nvme_s":…,
// …, "cores":{"matmul_s":…, …}}, "backward":…}
nlohmann::json bound_json(const StepCost& cost);

}  // namespace strata::engine

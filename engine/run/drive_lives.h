// The drives that a run writes to, with what each may be written in its life.
#pragma once

#include <vector>

#include "engine/cost/machine_description.h"
#include "engine/options/options.h"
#include "engine/plan/write_forecast.h"

namespace strata::engine {

// Bandwidths are not measured: where one is not given, all count as equal.
std::vector<DriveLife> drives_of(const Options& options);
std::vector<DriveLife> drives_of(const MachineDescription& machine);

}  // namespace strata::engine

// `strata doctor`: what this machine allows, and what to do where it falls short.
#pragma once

#include "engine/options/options.h"

namespace strata::engine {

// Prints the findings; returns the exit code: 0 unless something makes training impossible. Throws
// ConfigError when --nvme is no list of directories.
int run_doctor(const Options& options);

}  // namespace strata::engine

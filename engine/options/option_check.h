// Checks of options that need no file and no machine.
#pragma once

#include <string>

#include "engine/options/options.h"

namespace strata::engine {

// Ranges and combinations. Throws ConfigError.
void check_options(const Options& options);

// Of them, what commands that train nothing have too. Throws ConfigError.
void check_timeouts(const Options& options);

// What train needs and plan does not: data, and a number of steps or epochs. Throws ConfigError.
void check_training_options(const Options& options);

// The device that --device stands for: "cpu", also for auto. Throws ConfigError for one that this
// build does not have.
std::string resolve_device(const Options& options);

}  // namespace strata::engine

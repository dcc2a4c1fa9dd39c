// The command `train`.
#pragma once

#include "engine/options.h"

namespace strata::engine {

// Trains as `options` say, on this rank; returns the exit code. Throws what main() reports.
int run_train(const Options& options);

}  // namespace strata::engine

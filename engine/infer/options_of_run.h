// Where --model of eval and generate is the folder of a run: its newest commit is the model.
#pragma once

#include <optional>

#include "engine/options/options.h"

namespace strata::engine {

// Null unless given.model is the folder of a run. What the options of the command line lie above:
// `defaults`, with the run's --model, and its --precision, --matmul-dtype, --seq-len, --pack and
// --overlong, so that a loss is comparable with the run's own. --run names the folder, and --resume
// is set. Throws ConfigError naming the file when it cannot be read.
std::optional<Options> options_of_run(const Options& given, const Options& defaults);

}  // namespace strata::engine

// options.json: the options of a run, in its folder. Where a run goes on, they are the lowest
// layer:
//
//   options.json of --run DIR --resume   <   --config FILE   <   command line
#pragma once

#include <optional>
#include <string>

#include "engine/options/options.h"

namespace strata::engine {

inline constexpr const char* kRunOptionsFile = "options.json";

// Every option of train with its value but those that say how the program starts, readable as a
// --config file.
std::string run_options_json(const Options& options);

// The options of the run that `given` goes on with: nothing unless it has --resume and --run, and
// that folder has options. Throws ConfigError naming the file when it cannot be read.
std::optional<Options> recorded_options(const Options& given);

}  // namespace strata::engine

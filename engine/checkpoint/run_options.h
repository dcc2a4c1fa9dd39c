// options.json: the options of a run, in its folder. Where a run goes on, they are the lowest
// layer:
//
//   options.json of --run DIR --resume   <   --config FILE   <   command line
//
// A run that begins from a portable checkpoint has those recorded there below it instead, but
// nothing of where the other run was and what it kept.
#pragma once

#include <optional>
#include <string>

#include "engine/options/options.h"

namespace strata::engine {

inline constexpr const char* kRunOptionsFile = "options.json";

// Every option of train with its value, paths absolute, but those that say how the program starts;
// readable as a --config file.
std::string run_options_json(const Options& options);

struct RecordedOptions {
  Options options;
  std::string recorded_in;  // "--run DIR"
};

// The options that `given` goes on with: of --run DIR with --resume, where that has a run, or else
// of --resume-from. Throws ConfigError naming the file when it cannot be read, or the folder of
// --run when no model is given, as if to go on, and it is not as --resume says.
std::optional<RecordedOptions> recorded_options(const Options& given);

}  // namespace strata::engine

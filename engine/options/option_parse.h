// From the words of a command line to Options.
#pragma once

#include <string>
#include <vector>

#include "engine/options/option_list.h"
#include "engine/options/options.h"

namespace strata::engine {

// Parses `arguments` (without program and command name) of `command`, whose help errors point to. A
// --config FILE is applied over `base`, wherever it stands, and the command line over that; of two
// options that exclude each other the upper layer's wins. Throws ConfigError naming the option or
// file:line: unknown (with the nearest known name), not of this command, or with a value that is
// not understood.
Options parse_options(const CommandSyntax& command, const std::vector<std::string>& arguments,
                      const Options& base = {});

}  // namespace strata::engine

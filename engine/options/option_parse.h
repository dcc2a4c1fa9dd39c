// From the words of a command line to Options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/options/options.h"

namespace strata::engine {

// Parses `arguments` (without program and command name) of `command`, whose help errors point to. A
// --config FILE is applied first, wherever it stands; the command line wins. Throws ConfigError
// naming the option or file:line, with the nearest known name for an unknown one.
Options parse_options(std::string_view command, const std::vector<std::string>& arguments);

}  // namespace strata::engine

// From the words of a command line to Options.
#pragma once

#include <string>
#include <vector>

#include "engine/options/option_list.h"
#include "engine/options/options.h"

namespace strata::engine {

// Parses `arguments` (without program and command name) of `command`, whose help errors point to. A
// --config FILE is applied first, wherever it stands; the command line wins. Throws ConfigError
// naming the option or file:line: unknown (with the nearest known name), not of this command, or
// with a value that is not understood.
Options parse_options(const CommandSyntax& command, const std::vector<std::string>& arguments);

}  // namespace strata::engine

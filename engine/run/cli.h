// The command line: which command runs, with which options; help and version.
#pragma once

#include <string>
#include <vector>

namespace strata::engine {

// Runs the command that `arguments` (without the program's name) ask for and returns the exit code.
// Throws ConfigError for an unknown command or option, and whatever the command throws.
int run_cli(const std::vector<std::string>& arguments);

}  // namespace strata::engine

// Paths in options, as far as their text and kind alone can be wrong.
#pragma once

#include <string>
#include <string_view>

#include "engine/options/option_list.h"

namespace strata::engine {

// Refuses a path that no file system has room for, and a folder where a file is asked for; "":
// nothing is named. What else may be wrong with it depends on its use. Throws ConfigError, to which
// the caller adds the option.
void check_path(const std::string& path, OptionPaths kind);

// Each of the paths that the text of an option names.
void check_paths(const OptionSpec& option, std::string_view text);

}  // namespace strata::engine

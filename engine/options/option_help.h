// The options as text: what --help shows, and what a run was asked for.
#pragma once

#include <string>
#include <string_view>

#include "engine/options/option_list.h"

namespace strata::engine {

// Help text of `command`, grouped, with defaults: of the options that it uses.
std::string options_help(const CommandSyntax& command);

// One "name = value" line per option that differs from its default.
std::string options_summary(const Options& options);

}  // namespace strata::engine

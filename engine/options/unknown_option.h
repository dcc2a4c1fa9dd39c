// What to tell somebody who used an option that does not exist.
#pragma once

#include <string>
#include <string_view>

#include "engine/options/option_list.h"

namespace strata::engine {

// `name` without leading dashes. In this order: the option that other tools spell so
// ("max_grad_norm is --clip-norm here"), advice for a setting that has no direct counterpart
// (gradient_accumulation_steps), the nearest option that `command` takes, or where to find the
// list: its help.
std::string explain_unknown_option(std::string_view name, const CommandSyntax& command);

}  // namespace strata::engine

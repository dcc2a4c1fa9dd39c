// What to tell somebody who used an option that does not exist.
#pragma once

#include <string>
#include <string_view>

namespace strata::engine {

// `name` without leading dashes. In this order: the option that other tools spell so
// ("max_grad_norm is --clip-norm here"), advice for a setting that has no direct counterpart
// (gradient_accumulation_steps), the nearest option, or where to find the list: the help of
// `command`.
std::string explain_unknown_option(std::string_view name, std::string_view command);

}  // namespace strata::engine

// The known name that a mistyped one most likely stands for, for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace strata {

// The element of `names` with the smallest edit distance to `name` (insertion, deletion,
// substitution or exchange of neighbours; letter case and '-' against '_' cost nothing), the first
// of equals. "" when none is close: a third of the longer name may differ, and at least one letter.
std::string nearest(std::string_view name, std::span<const std::string> names);

// " (did you mean 'NAME'?)" with the nearest name, or "".
std::string did_you_mean(std::string_view name, std::span<const std::string> names);

}  // namespace strata

// Numbers of things as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata::engine {

// "1,681,817"
std::string with_separators(std::int64_t count);

// "1 step", "6,241 steps"; `plural` where an s is not enough.
std::string count_text(std::int64_t count, std::string_view noun, std::string_view plural = "");

}  // namespace strata::engine

// A line of a terminal that is overwritten.
#pragma once

#include <cstddef>
#include <string_view>

namespace strata::engine {

inline constexpr std::string_view kStartOver = "\r\x1b[K";  // to column 0, and erase the line

// What fits a line of the terminal at a descriptor, for one that wraps could not be overwritten; of
// what is none, no limit.
std::size_t terminal_columns(int descriptor);

}  // namespace strata::engine

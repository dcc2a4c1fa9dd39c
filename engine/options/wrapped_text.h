// Text broken into lines at its blanks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strata::engine {

// Appends `text` and a new line to `out`, whose last line ends at column `indent`: further lines
// begin there, and none goes beyond `width` unless a word does.
void append_wrapped(std::string& out, std::string_view text, std::size_t indent, std::size_t width);

}  // namespace strata::engine

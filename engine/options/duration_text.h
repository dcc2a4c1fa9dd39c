// Lengths of time as people read them.
#pragma once

#include <string>

namespace strata::engine {

// "12.3 ms", "8.55 s", "45.2 s", "18.7 min", "3.5 h", "10.0 days", "3.0 years"
std::string duration_text(double seconds);

}  // namespace strata::engine

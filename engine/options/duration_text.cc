#include "engine/options/duration_text.h"

#include <fmt/format.h>

#include <iterator>

namespace strata::engine {

namespace {

struct Unit {
  double seconds;
  const char* name;
  double from;  // this many of it
};

constexpr Unit kUnits[] = {{365.25 * 86400, "years", 2},
                           {86400, "days", 2},
                           {3600, "h", 2},
                           {60, "min", 2},
                           {1, "s", 0.9995},
                           {1e-3, "ms", 0}};

}  // namespace

std::string duration_text(double seconds) {
  if (seconds == 0) return "0 s";
  const Unit* unit = kUnits;
  while (seconds < unit->from * unit->seconds && unit + 1 < std::end(kUnits)) ++unit;
  const double count = seconds / unit->seconds;
  const bool has_hundredths = unit->seconds <= 1 && count < 9.995;
  return fmt::format("{:.{}f} {}", count, has_hundredths ? 2 : count < 99.95 ? 1 : 0, unit->name);
}

}  // namespace strata::engine

#include "kernels/base/bytes.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "kernels/base/error.h"

namespace strata {
namespace {

// Bytes of a unit, in lower case; nothing if it is none.
std::optional<std::int64_t> unit_bytes(std::string_view unit) {
  if (unit.empty() || unit == "b") return 1;
  const std::size_t power = std::string_view("kmgt").find(unit.front());
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view suffix = unit.substr(1);
  if (!suffix.empty() && suffix != "b" && suffix != "ib") return std::nullopt;
  const std::int64_t base = suffix == "b" ? 1000 : 1024;
  std::int64_t bytes = base;
  for (std::size_t i = 0; i < power; ++i) bytes *= base;
  return bytes;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace

std::int64_t parse_bytes(std::string_view text) {
  const auto fail = [&](std::string_view why) {
    throw_error<ConfigError>("'{}' is not a size in bytes: {}; write it like 24GiB, 512MB or 4096",
                             text, why);
  };
  const std::string lower = lower_case(text);
  const char* const end = lower.data() + lower.size();
  std::uint64_t whole = 0;
  auto [next, error] = std::from_chars(lower.data(), end, whole);
  if (error == std::errc::result_out_of_range) fail("it is too large");
  if (error != std::errc()) fail("it does not start with a number");
  double fraction = 0;
  if (next != end && *next == '.') {
    const char* const digits = next + 1;
    double scale = 0.1;
    for (next = digits; next != end && *next >= '0' && *next <= '9'; ++next, scale /= 10) {
      fraction += (*next - '0') * scale;
    }
    if (next == digits) fail("digits are missing after the point");
  }
  while (next != end && *next == ' ') ++next;
  const std::optional<std::int64_t> unit = unit_bytes({next, static_cast<std::size_t>(end - next)});
  if (!unit) fail("its unit is unknown");
  if (fraction != 0 && *unit == 1) fail("a byte has no fractions");
  const __int128 bytes =
      static_cast<__int128>(whole) * *unit + std::llround(fraction * static_cast<double>(*unit));
  if (bytes > std::numeric_limits<std::int64_t>::max()) fail("it is too large");
  return static_cast<std::int64_t>(bytes);
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.5 of a unit would print as 1024 of it.
  while (std::abs(value) >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return std::abs(value) >= 100 ? fmt::format("{:.0f} {}", value, kUnits[unit])
                                : fmt::format("{:.3g} {}", value, kUnits[unit]);
}

}  // namespace strata

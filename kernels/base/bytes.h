// Byte counts: rounding, and how people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

inline constexpr std::int64_t kKiB = 1024;
inline constexpr std::int64_t kMiB = 1024 * kKiB;
inline constexpr std::int64_t kGiB = 1024 * kMiB;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t multiple) {
  return ceil_div(a, multiple) * multiple;
}

// "24GiB", "512MB", "1.5GiB", "4096", "64k" (no unit: bytes; KB/MB/GB/TB are powers of 1000,
// K/M/G/T and KiB/MiB/GiB/TiB powers of 1024; case does not matter).
// Throws ConfigError naming the text when it is not a size, negative, or does not fit 63 bits.
std::int64_t parse_bytes(std::string_view text);

// "512 MiB", "1.4 GiB", "0 B": three significant digits, binary units.
std::string format_bytes(std::int64_t bytes);

}  // namespace strata

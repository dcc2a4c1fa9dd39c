#include "models/safetensors_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace strata::models {
namespace {

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> patterns(1 << 16);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  return patterns;
}

// By the definition of IEEE 754 binary formats; exact in double.
double value_of(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int exponent_max = (1 << exponent_bits) - 1;
  const int exponent = (bits >> fraction_bits) & exponent_max;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int bias = exponent_max / 2;
  double value = 0;
  if (exponent == exponent_max) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, 1 - bias - fraction_bits);
  } else {
    value = std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

void expect_exact(const char* dtype, int exponent_bits, int fraction_bits) {
  const std::vector<std::uint16_t> patterns = all_patterns();
  std::vector<float> values(patterns.size());
  widen(dtype, std::as_bytes(std::span(patterns)), values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = value_of(patterns[i], exponent_bits, fraction_bits);
    const bool same = std::isnan(expected) ? std::isnan(values[i])
                                           : values[i] == expected &&
                                                 std::signbit(values[i]) == std::signbit(expected);
    ASSERT_TRUE(same) << dtype << " " << i << ": " << values[i] << ", not " << expected;
  }
}

TEST(SafetensorsValues, EveryHalfIsExact) { expect_exact("F16", 5, 10); }
TEST(SafetensorsValues, EveryBf16IsExact) { expect_exact("BF16", 8, 7); }

TEST(SafetensorsValues, OnlyTheseTypesAreWidened) {
  for (const char* const dtype : {"F32", "F16", "BF16"}) EXPECT_TRUE(is_widened(dtype));
  for (const char* const dtype : {"F64", "I8", "F8_E4M3", ""}) EXPECT_FALSE(is_widened(dtype));
}

}  // namespace
}  // namespace strata::models

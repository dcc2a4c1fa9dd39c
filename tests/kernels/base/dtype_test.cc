#include "kernels/base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace strata {
namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

// Every sign, exponent and kind of lower half: a stride coprime to 2^32, and around each tie.
template <typename Check>
void for_many_floats(const Check& check) {
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 65'537 * 3 + 2) {
    check(from_bits(static_cast<std::uint32_t>(bits)));
  }
  for (std::uint32_t upper = 0; upper < 0x10000u; upper += 7) {
    for (const std::uint32_t lower : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      check(from_bits((upper << 16) | lower));
    }
  }
}

// The nearer of the two bf16 values around x, by distance in double precision (exact: both
// differences are multiples of x's last bit). Ties: `even` takes the even one, else the one farther
// from zero. Past the largest bf16 the next value is 2^128, for infinity.
std::uint16_t nearest_bf16(float x, bool even) {
  const auto toward_zero = static_cast<std::uint16_t>(bits_of(x) >> 16);
  const auto away = static_cast<std::uint16_t>(toward_zero + 1);
  const auto magnitude = [](std::uint16_t bits) {
    return (bits & 0x7FFF) == 0x7F80 ? std::ldexp(1.0, 128)
                                     : std::abs(double{from_bits(std::uint32_t{bits} << 16)});
  };
  const double below = std::abs(double{x}) - magnitude(toward_zero);
  const double above = magnitude(away) - std::abs(double{x});
  if (below == above) return even && toward_zero % 2 == 0 ? toward_zero : away;
  return below < above ? toward_zero : away;
}

TEST(Bf16, RoundsToNearestEven) {
  for_many_floats([](float x) {
    if (!std::isfinite(x)) return;
    ASSERT_EQ(to_bf16_nearest_even(x).bits, nearest_bf16(x, true)) << std::hexfloat << x;
  });
}

TEST(Bf16, KeepsInfinitiesAndNans) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_float(to_bf16_nearest_even(kInfinity)), kInfinity);
  EXPECT_EQ(to_float(to_bf16_nearest_even(-kInfinity)), -kInfinity);
  EXPECT_TRUE(std::isnan(to_float(to_bf16_nearest_even(from_bits(0x7F800001u)))))
      << "a NaN whose upper half alone would be infinity";
  EXPECT_TRUE(std::isnan(to_float(to_bf16_nearest_even(from_bits(0xFFFFFFFFu)))));
}

TEST(SplitMaster, JoinsExactlyAndRoundsTiesAway) {
  for_many_floats([](float x) {
    if ((bits_of(x) & 0x7FFFFFFFu) >= kSplitMasterBoundBits) return;
    const SplitMaster split = split_master(x);
    ASSERT_EQ(bits_of(join_master(split.weight, split.remainder)), bits_of(x));
    ASSERT_EQ(split.weight.bits, nearest_bf16(x, false)) << std::hexfloat << x;
    ASSERT_TRUE(std::isfinite(to_float(split.weight)));
  });
}

TEST(SplitMaster, DomainEndsWhereTheWeightWouldBeInfinite) {
  const float last = from_bits(kSplitMasterBoundBits - 1);
  const float first_outside = from_bits(kSplitMasterBoundBits);
  for (const float sign : {1.0f, -1.0f}) {
    EXPECT_TRUE(std::isfinite(to_float(split_master(sign * last).weight)));
    EXPECT_TRUE(std::isinf(to_float(split_master(sign * first_outside).weight)));
  }
}

}  // namespace
}  // namespace strata

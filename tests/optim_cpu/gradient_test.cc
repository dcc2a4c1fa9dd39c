// Sums of squares and rounding to bf16, against their definitions.
#include "optim_cpu/gradient.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "tests/optim_cpu/optim_testing.h"

namespace strata::optim {
namespace {

TEST(GradientSquareSum, MatchesAnExtendedSum) {
  std::mt19937 random(17);
  for (const std::int64_t elements : {1, 15, 16, 17, 1000, 4095, 4096}) {
    const std::vector<float> gradient = random_floats(elements, 4, random);
    long double expected = 0;
    for (const float g : gradient) expected += static_cast<long double>(g) * g;
    bool finite = true;
    for (const Isa isa : supported_isas()) {
      // Squares are exact in f64; 4096 / 16 + 4 additions of positive numbers.
      EXPECT_NEAR(gradient_square_sum(std::span(gradient), isa, &finite),
                  static_cast<double>(expected), 260 * 0x1p-53 * static_cast<double>(expected));
    }
    EXPECT_TRUE(finite);
  }
}

TEST(GradientSquareSum, AddsInTheDocumentedTree) {
  // Lane 0 holds elements 0, 16, 32, added in that order: 2^60 swallows each 1 on its own. Lanes 4
  // and 12 meet before they meet lane 0, which would swallow the 2^6 of either.
  std::vector<float> gradient(48, 0.0f);
  gradient[0] = 0x1p30f;
  gradient[16] = gradient[32] = 1;
  gradient[4] = gradient[12] = 0x1p3f;
  bool finite = true;
  for (const Isa isa : supported_isas()) {
    EXPECT_EQ(gradient_square_sum(std::span<const float>(gradient), isa, &finite), 0x1p60)
        << "2^6 + 2^6 is half a unit of 2^60 in the last place, a tie to even";
    gradient[20] = 1;  // lane 4: over the tie, if it is summed before lane 0 comes in
    EXPECT_EQ(gradient_square_sum(std::span<const float>(gradient), isa, &finite), 0x1p60 + 0x1p8);
    gradient[20] = 0;
  }
}

TEST(GradientSquareSum, SeesEveryNonFiniteElement) {
  constexpr std::size_t kElements = 75;
  for (const Isa isa : supported_isas()) {
    for (std::size_t place = 0; place < kElements; ++place) {
      for (const float bad : {std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity(), std::nanf("")}) {
        std::vector<float> gradient(kElements, std::numeric_limits<float>::max());
        bool finite = true;
        (void)gradient_square_sum(std::span<const float>(gradient), isa, &finite);
        EXPECT_TRUE(finite);
        gradient[place] = bad;
        (void)gradient_square_sum(std::span<const float>(gradient), isa, &finite);
        EXPECT_FALSE(finite) << name_of(isa) << ' ' << place;
        std::vector<bf16> narrow(kElements, bf16{});
        narrow[place] = to_bf16_nearest_even(bad);
        finite = true;
        (void)gradient_square_sum(std::span<const bf16>(narrow), isa, &finite);
        EXPECT_FALSE(finite) << name_of(isa) << ' ' << place;
      }
    }
  }
}

TEST(RoundToBf16, NearestWithTiesToEven) {
  const struct {
    std::uint32_t f32;
    std::uint16_t rounded;
  } kCases[] = {
      {0x3F800000, 0x3F80},  // 1
      {0x3F807FFF, 0x3F80},  // below the tie
      {0x3F808000, 0x3F80},  // tie, even below
      {0x3F808001, 0x3F81},  // above the tie
      {0x3F818000, 0x3F82},  // tie, even above
      {0xBF818000, 0xBF82},  // its negative
      {0x7F7FFFFF, 0x7F80},  // the largest f32 overflows to infinity
      {0x7F7F7FFF, 0x7F7F},  // the last that does not
      {0x00000001, 0x0000},  // subnormals
      {0x00008001, 0x0001},  // the smallest that does not become 0
      {0x80000000, 0x8000},  // -0
      {0x7F800000, 0x7F80},  // infinity
      {0x7F800001, 0x7FC0},  // a signalling NaN becomes quiet, not infinity
      {0xFFFFFFFF, 0xFFFF},  // a NaN does not wrap around to zero
  };
  for (const Isa isa : supported_isas()) {
    for (const auto& c : kCases) {
      const std::vector<float> source(33, std::bit_cast<float>(c.f32));  // vector body and tail
      std::vector<bf16> rounded(source.size());
      round_to_bf16(rounded, source, isa);
      for (const bf16 r : rounded) EXPECT_EQ(r.bits, c.rounded) << std::hex << c.f32;
    }
  }
}

}  // namespace
}  // namespace strata::optim

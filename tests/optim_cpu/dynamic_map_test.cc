// Moments in int8: the maps as published, every number stored as its nearest level, blocks that are
// zero, subnormal or not finite, and no explosion where a second moment is small.
#include "optim_cpu/dynamic_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/optim_cpu/optim_testing.h"
#include "tests/optim_cpu/optimizer_goldens.h"

namespace strata::optim {
namespace {

// The levels in double precision, from the paper's description: decade i of 0 … 6, scaled by
// 10^(i - 6), cuts [0.1, 1] into 2^i cells (unsigned: 2^(i + 1)) and has their middles.
std::vector<double> levels(bool is_signed) {
  std::vector<double> levels = {0};
  for (int decade = 0; decade < 7; ++decade) {
    const int cells = 1 << (is_signed ? decade : decade + 1);
    for (int cell = 0; cell < cells; ++cell) {
      const double low = 0.1 + 0.9 * cell / cells;
      const double high = 0.1 + 0.9 * (cell + 1) / cells;
      levels.push_back(std::pow(10.0, decade - 6) * (low + high) / 2);
    }
  }
  levels.push_back(1);
  return levels;
}

template <int kLevels>
void expect_map(const DynamicMap<kLevels>& map, bool is_signed, std::span<const double> published) {
  const std::vector<double> expected = levels(is_signed);
  ASSERT_EQ(expected.size(), map.level.size());
  ASSERT_EQ(published.size(), map.level.size() - 1);
  for (std::size_t n = 0; n < expected.size(); ++n) {
    EXPECT_EQ(map.level[n], static_cast<float>(expected[n])) << n;
    if (n == 0) continue;
    // Written to seven digits: 5e-7 of a number that starts with 1. PyTorch computed them in f32.
    EXPECT_NEAR(map.level[n], published[n - 1], 6e-7 * published[n - 1]) << n;
  }
}

TEST(DynamicMap, IsThePublishedOne) {
  expect_map(kSignedMap, true, kSignedMapLevels);
  expect_map(kUnsignedMap, false, kUnsignedMapLevels);
}

template <int kLevels>
void expect_nearest(const DynamicMap<kLevels>& map) {
  const auto check = [&](float x) {
    const auto& level = map.level;
    const auto above = std::lower_bound(level.begin(), level.end(), x) - level.begin();
    auto expected = above;
    if (above > 0) {
      // Half-way in double precision, rounded to f32 as numbers that are compared with it are.
      const auto half_way = static_cast<float>((double{level[static_cast<std::size_t>(above)]} +
                                                level[static_cast<std::size_t>(above - 1)]) /
                                               2);
      if (x <= half_way) expected = above - 1;
    }
    ASSERT_EQ(map.nearest(std::bit_cast<std::uint32_t>(x)), expected) << x;
  };
  for (std::size_t n = 0; n + 1 < map.level.size(); ++n) {
    const auto half_way = static_cast<float>((double{map.level[n]} + double{map.level[n + 1]}) / 2);
    for (const float x :
         {map.level[n], half_way, std::nextafter(half_way, 0.0f), std::nextafter(half_way, 2.0f)}) {
      check(x);
    }
  }
  for (std::uint32_t bits = 0; bits <= 0x3F800000u; bits += 997) check(std::bit_cast<float>(bits));
  check(1);
}

TEST(DynamicMap, StoresTheNearestLevelAndTiesTheLower) {
  expect_nearest(kSignedMap);
  expect_nearest(kUnsignedMap);
}

// The state of one block, whose moments an update with betas of 0 sets to g and g^2.
struct Block {
  std::vector<float> weight = std::vector<float>(kScaleElements, 1.0f);
  std::vector<float> gradient = std::vector<float>(kScaleElements);
  std::vector<std::uint8_t> codes1 = std::vector<std::uint8_t>(kScaleElements);
  std::vector<std::uint8_t> codes2 = std::vector<std::uint8_t>(kScaleElements);
  float scale1 = 0;
  float scale2 = 0;

  State state() {
    State state;
    state.weight = weight.data();
    state.moments = MomentFormat::int8;
    state.moment1 = {codes1.data(), &scale1};
    state.moment2 = {codes2.data(), &scale2};
    state.gradient = gradient.data();
    state.elements = kScaleElements;
    return state;
  }
  bool store_gradient(Isa isa) { return update({.beta1 = 0, .beta2 = 0}, {0, 0}, state(), isa); }
  // Codes as the documentation has them.
  double moment1(std::size_t i) const {
    const int code = static_cast<std::int8_t>(codes1[i]);
    const double level = levels(true)[static_cast<std::size_t>(std::abs(code))];
    return scale1 * (code < 0 && code != -128 ? -level : level);
  }
  double moment2(std::size_t i) const { return scale2 * levels(false)[codes2[i]]; }
};

// Half the distance of the levels around x; rounding may have taken it beyond 1.
double error_bound(const std::vector<double>& levels, double x) {
  const auto above = std::lower_bound(levels.begin(), levels.end() - 1, x);
  if (above == levels.begin()) return 0;
  return (*above - *(above - 1)) / 2;
}

TEST(QuantisedMoments, AreOffByHalfAStepOfTheMapAtMost) {
  const std::vector<double> signed_levels = levels(true);
  const std::vector<double> unsigned_levels = levels(false);
  // Quotient, product and level are rounded to f32.
  constexpr double kRounding = 3 * 0x1p-24;
  for (const Isa isa : supported_isas()) {
    for (const float decades : {0.0f, 2.0f, 6.0f, 10.0f}) {
      std::mt19937 random(41);
      Block block;
      block.gradient = random_floats(kScaleElements, decades, random);
      ASSERT_TRUE(block.store_gradient(isa));
      for (std::size_t i = 0; i < kScaleElements; ++i) {
        const double g = block.gradient[i];
        const double m_bound =
            block.scale1 * error_bound(signed_levels, std::abs(g) / block.scale1);
        // The largest negative number has no level at -1, but 0.9 / 128 before it.
        const double end_bound = g < 0 ? block.scale1 * 0.9 / 128 : 0;
        EXPECT_NEAR(block.moment1(i), g, std::max(m_bound, end_bound) + kRounding * std::abs(g));
        // g^2 has two roundings of its own. A number above zero is not stored as zero.
        const double square = g * g;
        const double v_bound =
            block.scale2 * std::max(error_bound(unsigned_levels, square / block.scale2),
                                    square < block.scale2 * 1e-6 ? unsigned_levels[1] : 0.0);
        EXPECT_NEAR(block.moment2(i), square, v_bound + 3 * kRounding * square);
      }
    }
  }
}

TEST(QuantisedMoments, ALevelTimesTheScaleKeepsItsCode) {
  for (const Isa isa : supported_isas()) {
    for (const float scale : {1.0f, 0x1.234568p-7f, 3e-39f}) {
      Block block;
      for (int code = 0; code < 256; ++code) {
        block.codes1[static_cast<std::size_t>(code)] = static_cast<std::uint8_t>(code);
        block.codes2[static_cast<std::size_t>(code)] = static_cast<std::uint8_t>(code);
      }
      block.scale1 = block.scale2 = scale;
      const Block before = block;
      // betas of 1: the moments become what they were.
      (void)update({.beta1 = 1, .beta2 = 1}, {0, 0}, block.state(), isa);
      EXPECT_EQ(block.scale1, scale);
      EXPECT_EQ(block.scale2, scale);
      if (scale < 1e-38f) continue;  // levels of a subnormal scale fall together
      EXPECT_EQ(block.codes1, before.codes1);
      EXPECT_EQ(block.codes2, before.codes2);
    }
  }
}

TEST(QuantisedMoments, ZeroBytesAreZeros) {
  for (const Isa isa : supported_isas()) {
    Block block;
    ASSERT_TRUE(update({}, {1e-3f, 0}, block.state(), isa));
    EXPECT_EQ(block.scale1, 0);
    EXPECT_EQ(block.scale2, 0);
    EXPECT_EQ(block.codes1, std::vector<std::uint8_t>(kScaleElements));
    EXPECT_EQ(block.codes2, std::vector<std::uint8_t>(kScaleElements));
    EXPECT_EQ(block.weight, std::vector<float>(kScaleElements, 1.0f));
  }
}

TEST(QuantisedMoments, SubnormalAndNonFiniteBlocks) {
  for (const Isa isa : supported_isas()) {
    Block tiny;
    tiny.gradient[3] = -4e-45f;
    tiny.gradient[4] = 1e-40f;
    ASSERT_TRUE(tiny.store_gradient(isa));
    EXPECT_EQ(tiny.scale1, 1e-40f);
    EXPECT_EQ(tiny.scale2, 0);
    EXPECT_EQ(tiny.codes1[4], 0x80);  // 1
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      Block block;
      block.gradient[200] = bad;
      block.gradient[201] = 1;
      EXPECT_FALSE(block.store_gradient(isa));
      EXPECT_FALSE(std::isfinite(block.scale1));  // the block stays marked
      EXPECT_FALSE(update({}, {1e-3f, 0}, block.state(), isa));
    }
  }
}

// bitsandbytes stores a second moment below 1.6e-7 of its block's largest as zero, where the first
// moment, beside sqrt(1.6e-7) = 4e-4, is still far from that. The next small gradient divides the
// one by the other.
TEST(QuantisedMoments, ASmallGradientBesideALargeOneMakesNoLargeStep) {
  constexpr float kRate = 1e-3f;
  for (const Isa isa : supported_isas()) {
    Block block;
    std::fill(block.gradient.begin(), block.gradient.end(), 2e-4f);
    block.gradient[0] = 1;
    StepSettings settings;
    for (settings.step = 1; settings.step <= 20; ++settings.step) {
      if (settings.step == 10) std::fill(block.gradient.begin() + 1, block.gradient.end(), 1e-12f);
      const std::vector<float> before = block.weight;
      ASSERT_TRUE(update(settings, {kRate, 0}, block.state(), isa));
      for (std::size_t i = 0; i < kScaleElements; ++i) {
        // |m| <= (1 - beta1) / sqrt((1 - beta2) (1 - beta1^2 / beta2)) sqrt(v) = 1.17 sqrt(v) for
        // exact moments (Cauchy-Schwarz); a level of the lowest decades is off by less than half.
        EXPECT_LT(std::abs(block.weight[i] - before[i]), 3 * kRate) << settings.step << ' ' << i;
      }
    }
    EXPECT_NE(block.codes2[1], 0);
  }
}

}  // namespace
}  // namespace strata::optim

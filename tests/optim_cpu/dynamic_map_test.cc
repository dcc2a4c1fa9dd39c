// Moments in int8: the maps as published, numbers stored as one of the two levels around them and
// without bias, blocks that are zero, subnormal or not finite, and no explosion where a second
// moment is small.
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
void expect_places(const DynamicMap<kLevels>& map) {
  constexpr double kOne = 1 << DynamicMap<kLevels>::kPlaceBits;
  const auto& level = map.level;
  for (std::size_t n = 0; n < level.size(); ++n) EXPECT_EQ(map.place(level[n]), n * kOne) << n;
  for (std::uint32_t bits = 0; bits < 0x3F800000u; bits += 997) {
    const float x = std::bit_cast<float>(bits);
    const auto above = static_cast<std::size_t>(
        std::upper_bound(level.begin(), level.end() - 1, x) - level.begin());
    const double share = (double{x} - level[above - 1]) / (double{level[above]} - level[above - 1]);
    // The product of the steepest line at 1 is 284 · 2^15 < 2^24: it, its slope, the sum and the
    // integer that it becomes are off by a half each at most.
    ASSERT_NEAR(map.place(x), kOne * (static_cast<double>(above - 1) + share), 2) << x;
  }
}

TEST(DynamicMap, PlacesNumbersBetweenTheirLevels) {
  expect_places(kSignedMap);
  expect_places(kUnsignedMap);
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

// The distance of the levels around x; rounding may have taken it beyond 1.
double error_bound(const std::vector<double>& levels, double x) {
  const auto above = std::lower_bound(levels.begin(), levels.end() - 1, x);
  return above == levels.begin() ? 0 : *above - *(above - 1);
}

TEST(QuantisedMoments, AreOffByOneStepOfTheMapAtMost) {
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
        EXPECT_NEAR(block.moment1(i), g, m_bound + kRounding * std::abs(g));
        const double square = g * g;  // there with two roundings of its own
        const double v_bound = block.scale2 * error_bound(unsigned_levels, square / block.scale2);
        EXPECT_NEAR(block.moment2(i), square, v_bound + 3 * kRounding * square);
      }
    }
  }
}

constexpr double kSigmas = 5;  // exceeded by chance once in 1.7 million

// Of the elements that all have the same, all but the first, which sets the scale.
template <typename MomentOf>
double mean_of(const MomentOf& moment) {
  double sum = 0;
  for (std::size_t i = 1; i < kScaleElements; ++i) sum += moment(i);
  return sum / (kScaleElements - 1);
}

TEST(QuantisedMoments, AreRoundedWithoutBias) {
  constexpr int kDraws = 500;
  for (const float g : {0.98f, -0.7f, 0.3f, 0.1f, -0.0321f, 4.3e-3f, 7e-4f}) {
    double mean1 = 0;
    double mean2 = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      Block block;
      std::fill(block.gradient.begin(), block.gradient.end(), g);
      block.gradient[0] = 1;
      State state = block.state();
      state.unit = static_cast<std::uint64_t>(draw);
      ASSERT_TRUE(update({.beta1 = 0, .beta2 = 0}, {0, 0}, state, best_isa()));
      mean1 += mean_of([&](std::size_t i) { return block.moment1(i); }) / kDraws;
      mean2 += mean_of([&](std::size_t i) { return block.moment2(i); }) / kDraws;
    }
    // One draw has a variance of a quarter of the squared distance at most, and a place is off by
    // 2 / 2^15 of it.
    const double error = kSigmas / 2 / std::sqrt(kDraws * (kScaleElements - 1.0)) + 0x1p-14;
    EXPECT_NEAR(mean1, g, error * error_bound(levels(true), std::abs(g))) << g;
    EXPECT_NEAR(mean2, double{g} * g, error * error_bound(levels(false), double{g} * g)) << g;
  }
}

// Rounded to nearest, both would soon stay where they are for ever: beta of a number is nearer to
// it than to the level below.
TEST(QuantisedMoments, DecayBesideALargeGradient) {
  constexpr int kSteps = 1000;
  constexpr float kBeta1 = 0.9f;
  constexpr float kBeta2 = 0.999f;
  Block block;
  std::fill(block.gradient.begin(), block.gradient.end(), std::sqrt(0.5f));
  block.gradient[0] = 1;
  ASSERT_TRUE(block.store_gradient(best_isa()));
  std::fill(block.gradient.begin() + 1, block.gradient.end(), 0.0f);
  StepSettings settings{.beta1 = kBeta1, .beta2 = kBeta2};
  for (settings.step = 2; settings.step < 2 + kSteps; ++settings.step) {
    ASSERT_TRUE(update(settings, {0, 0}, block.state(), best_isa()));
  }
  for (std::size_t i = 1; i < kScaleElements; ++i) EXPECT_EQ(block.codes1[i], 0) << i;
  // The recursion is linear. A step's rounding goes down by one distance, 0.9 / 128 at most, with
  // the probability (1 - beta2) v / distance, which bounds its variance by the product of the two.
  const double variance = kSteps * (1 - kBeta2) * 0.5 * 0.9 / 128;
  EXPECT_NEAR(mean_of([&](std::size_t i) { return block.moment2(i); }),
              0.5 * std::pow(double{kBeta2}, kSteps),
              kSigmas * std::sqrt(variance / (kScaleElements - 1)));
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
        // exact moments (Cauchy-Schwarz). Where m counts, above 1e-4 of its scale, rounding up at
        // most doubles it; down, it takes 7/12 of v at most. 1.17 · 2 · sqrt(12/5) = 3.6.
        EXPECT_LT(std::abs(block.weight[i] - before[i]), 4 * kRate) << settings.step << ' ' << i;
      }
    }
    EXPECT_NE(block.codes2[1], 0);
  }
}

}  // namespace
}  // namespace strata::optim

// Moments in bf16: rounded without bias, by bits that depend on the element, the step, the unit and
// the seed, and on nothing else.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "tests/optim_cpu/optim_testing.h"

namespace strata::optim {
namespace {

constexpr std::int64_t kElements = 1 << 18;
constexpr double kSigmas = 5;  // exceeded by chance once in 1.7 million

struct Keys {
  std::uint64_t seed = 1;
  std::uint64_t unit = 0;
  std::int64_t first_element = 0;
  std::int64_t step = 1;
};

struct Moments {
  std::vector<bf16> first;
  std::vector<bf16> second;
};

bf16 upper_half(float x) {
  return {static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16)};
}

// One step without gradient and without a change of the weight: m becomes beta1 m, v becomes
// beta2 v, both in f32, and then they are rounded.
void scale_moments(Moments& moments, float beta1, float beta2, const Keys& keys,
                   Isa isa = best_isa()) {
  const std::size_t elements = moments.first.size();
  std::vector<float> weight(elements), gradient(elements);
  State state;
  state.weight = weight.data();
  state.moments = MomentFormat::bf16;
  state.moment1.values = moments.first.data();
  state.moment2.values = moments.second.data();
  state.gradient = gradient.data();
  state.elements = static_cast<std::int64_t>(elements);
  state.first_element = keys.first_element;
  state.unit = keys.unit;
  ASSERT_TRUE(update({.beta1 = beta1, .beta2 = beta2, .step = keys.step, .seed = keys.seed}, {0, 0},
                     state, isa));
}

Moments constant_moments(std::int64_t elements, float m, float v) {
  const auto count = static_cast<std::size_t>(elements);
  return {std::vector<bf16>(count, upper_half(m)), std::vector<bf16>(count, upper_half(v))};
}

// Which of elements that all stand at the same place between two bf16 numbers went up.
std::vector<int> ups(const std::vector<bf16>& rounded, float exact) {
  std::vector<int> ups;
  for (const bf16 r : rounded) {
    const int up = r.bits - upper_half(exact).bits;
    EXPECT_TRUE(up == 0 || up == 1) << r.bits;
    ups.push_back(up);
  }
  return ups;
}

double share_discarded(float exact) {
  return static_cast<double>(std::bit_cast<std::uint32_t>(exact) & 0xFFFFu) / 65536;
}

double mean_of(const std::vector<int>& values) {
  double sum = 0;
  for (const int v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

// Draws of probability p: the mean of n is off by sqrt(p (1 - p) / n), one standard deviation.
void expect_share(const std::vector<int>& ups, double p, const std::string& what) {
  const double sigma = std::sqrt(p * (1 - p) / static_cast<double>(ups.size()));
  EXPECT_NEAR(mean_of(ups), p, kSigmas * sigma) << what;
}

TEST(StochasticRounding, GoesUpWithTheShareThatIsCutOff) {
  for (const float beta : {0.9f, 0.95f, 0.999f, 0.9999f, 0.50390625f}) {
    for (const float start : {1.0f, -1.7578125f, 3e-41f}) {
      Moments moments = constant_moments(kElements, start, std::abs(start));
      const float m = to_float(moments.first[0]) * beta;
      const float v = to_float(moments.second[0]) * beta;
      scale_moments(moments, beta, beta, {});
      expect_share(ups(moments.first, m), share_discarded(m), fmt::format("m {} {}", beta, start));
      expect_share(ups(moments.second, v), share_discarded(v), fmt::format("v {} {}", beta, start));
    }
  }
}

TEST(StochasticRounding, ANumberOfBf16StaysWhatItIs) {
  for (const float x : {1.0f, -0.0f, 0.0f, -3.0f}) {
    Moments moments = constant_moments(1000, x, std::abs(x));
    scale_moments(moments, 0.5f, 0.5f, {});
    for (const bf16 m : moments.first) EXPECT_EQ(to_float(m), x / 2);
    for (const bf16 v : moments.second) EXPECT_EQ(to_float(v), std::abs(x) / 2);
  }
}

// Whether x and y of equal probability p are independent: both go up with probability p^2.
void expect_independent(const std::vector<int>& x, const std::vector<int>& y, double p,
                        const std::string& what) {
  std::vector<int> both;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) both.push_back(x[i] & y[i]);
  expect_share(both, p * p, what);
}

TEST(StochasticRounding, DrawsAreIndependent) {
  constexpr float kBeta = 0.998046875f;  // from 1 half-way down to the number before: p = 1/2
  const auto draw = [&](const Keys& keys) {
    Moments moments = constant_moments(kElements, 1, 1);
    scale_moments(moments, kBeta, kBeta, keys);
    return std::pair(ups(moments.first, kBeta), ups(moments.second, kBeta));
  };
  const auto [m, v] = draw({});
  const double p = share_discarded(kBeta);
  ASSERT_EQ(p, 0.5);
  expect_independent(m, v, p, "m and v");
  expect_independent(m, draw({.step = 2}).first, p, "steps");
  expect_independent(m, draw({.seed = 2}).first, p, "seeds");
  expect_independent(m, draw({.unit = 1}).first, p, "units");
  expect_independent(m, draw({.first_element = std::int64_t{1} << 32}).first, p, "upper halves");
  for (const std::ptrdiff_t lag : {1, 2, 8, 16, 64, 256, 4096, 65536}) {
    expect_independent(m, {m.begin() + lag, m.end()}, p, fmt::format("lag {}", lag));
  }
}

TEST(StochasticRounding, DependsOnTheIndexInTheUnitAlone) {
  constexpr float kBeta = 0.97f;
  constexpr std::int64_t kFirst = (std::int64_t{1} << 32) - 500;  // the upper half turns on the way
  Moments whole = constant_moments(1000, 1, 1);
  scale_moments(whole, kBeta, kBeta, {.first_element = kFirst});
  for (const Isa isa : supported_isas()) {
    for (std::int64_t first = 0; first < 1000; first += 125) {
      Moments piece = constant_moments(125, 1, 1);
      scale_moments(piece, kBeta, kBeta, {.first_element = kFirst + first}, isa);
      for (std::size_t i = 0; i < 125; ++i) {
        const auto at = static_cast<std::size_t>(first) + i;
        ASSERT_EQ(piece.first[i], whole.first[at]) << name_of(isa);
        ASSERT_EQ(piece.second[i], whole.second[at]) << name_of(isa);
      }
    }
  }
}

// Rounded to nearest, v would stay at 1 forever: 0.999 is nearer to 1 than to the number below.
TEST(StochasticRounding, AnAverageDecaysAsItShould) {
  constexpr int kSteps = 50;
  constexpr float kBeta = 0.999f;
  constexpr std::int64_t kMany = 1 << 14;
  Moments moments = constant_moments(kMany, 1, 1);
  for (int step = 1; step <= kSteps; ++step) {
    scale_moments(moments, kBeta, kBeta, {.step = step});
  }
  double mean = 0;
  std::set<std::uint16_t> values;
  for (const bf16 v : moments.second) {
    mean += to_float(v) / kMany;
    values.insert(v.bits);
  }
  // The recursion is linear and each rounding unbiased with a variance of at most (2^-8)^2 / 4. f32
  // rounding adds up to 2^-25 a step.
  const double sigma = 0x1p-9 * std::sqrt(static_cast<double>(kSteps) / kMany);
  EXPECT_NEAR(mean, std::pow(double{kBeta}, kSteps), kSigmas * sigma + kSteps * 0x1p-25);
  EXPECT_GT(values.size(), 3u);
}

TEST(StochasticRounding, FiniteNumbersStayFinite) {
  const float largest = to_float(bf16{0x7F7F});
  for (const Isa isa : supported_isas()) {
    // beta1 > 1 is no optimizer's, but reaches the f32 numbers between the largest bf16 and
    // infinity.
    Moments moments = constant_moments(1000, -largest, 1);
    scale_moments(moments, 1.0f + 0x1p-9f, 1, {}, isa);
    for (const bf16 m : moments.first) EXPECT_EQ(to_float(m), -largest) << name_of(isa);
  }
}

TEST(StochasticRounding, WhatIsNotFiniteStaysSo) {
  for (const Isa isa : supported_isas()) {
    for (const std::uint16_t bits : {0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFFF}) {
      Moments moments = constant_moments(100, 0, 1);
      for (bf16& m : moments.first) m.bits = bits;
      std::vector<float> weight(100), gradient(100);
      State state;
      state.weight = weight.data();
      state.moments = MomentFormat::bf16;
      state.moment1.values = moments.first.data();
      state.moment2.values = moments.second.data();
      state.gradient = gradient.data();
      state.elements = 100;
      EXPECT_FALSE(update({}, {1e-3f, 0}, state, isa));
      for (const bf16 m : moments.first) EXPECT_FALSE(std::isfinite(to_float(m))) << bits;
    }
  }
}

}  // namespace
}  // namespace strata::optim

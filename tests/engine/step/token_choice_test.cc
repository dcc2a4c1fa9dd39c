#include "engine/step/token_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/base/error.h"

namespace strata::engine {
namespace {

constexpr double kAlmostOne = 1 - 0x1p-53;

TEST(TokenChoice, TemperatureZeroTakesTheLikeliestAndOfEqualOnesTheLowest) {
  TokenChoice choice({.temperature = 0, .top_k = 0, .top_p = 1});
  EXPECT_EQ(choice.choose(std::vector{-3.0f, 2.0f, 5.0f, 5.0f, 1.0f}, kAlmostOne), 2);
  EXPECT_EQ(choice.choose(std::vector{-3.0f}, 0.5), 0);
}

// Weights 4 : 2 : 1 : 1 for tokens 1, 3, 0, 2: the ends of their shares of [0, 1) are 1/2, 3/4, 7/8
// and 1, up to the roundings of exp and of the f32 logits.
const std::vector<float> kLogits = {0, std::log(4.0f), 0, std::log(2.0f)};

TEST(TokenChoice, SharesOfTheUnitIntervalFollowTheOrderOfTheLogits) {
  TokenChoice choice({.temperature = 1, .top_k = 0, .top_p = 1});
  EXPECT_EQ(choice.choose(kLogits, 0), 1);
  EXPECT_EQ(choice.choose(kLogits, 0.499), 1);
  EXPECT_EQ(choice.choose(kLogits, 0.501), 3);
  EXPECT_EQ(choice.choose(kLogits, 0.749), 3);
  EXPECT_EQ(choice.choose(kLogits, 0.751), 0);
  EXPECT_EQ(choice.choose(kLogits, 0.874), 0);
  EXPECT_EQ(choice.choose(kLogits, 0.876), 2);
  EXPECT_EQ(choice.choose(kLogits, kAlmostOne), 2);
}

TEST(TokenChoice, TemperatureIsAPowerOfTheWeights) {
  TokenChoice choice({.temperature = 0.5, .top_k = 0, .top_p = 1});
  // 16 : 4 : 1 : 1.
  EXPECT_EQ(choice.choose(kLogits, 16.0 / 22 - 0.001), 1);
  EXPECT_EQ(choice.choose(kLogits, 16.0 / 22 + 0.001), 3);
  EXPECT_EQ(choice.choose(kLogits, 20.0 / 22 + 0.001), 0);
}

TEST(TokenChoice, TopKKeepsTheFirstOfEqualOnesByTheirIds) {
  TokenChoice two({.temperature = 1, .top_k = 2, .top_p = 1});
  EXPECT_EQ(two.choose(kLogits, 4.0 / 6 - 0.001), 1);
  EXPECT_EQ(two.choose(kLogits, kAlmostOne), 3);
  TokenChoice three({.temperature = 1, .top_k = 3, .top_p = 1});
  EXPECT_EQ(three.choose(kLogits, kAlmostOne), 0);
  TokenChoice more_than_there_are({.temperature = 1, .top_k = 9, .top_p = 1});
  EXPECT_EQ(more_than_there_are.choose(kLogits, kAlmostOne), 2);
}

TEST(TokenChoice, TopPKeepsTheTokenThatReachesIt) {
  const auto last_of = [](double top_p, std::int64_t top_k) {
    TokenChoice choice({.temperature = 1, .top_k = top_k, .top_p = top_p});
    return choice.choose(kLogits, kAlmostOne);
  };
  EXPECT_EQ(last_of(0.01, 0), 1);
  EXPECT_EQ(last_of(0.49, 0), 1);
  EXPECT_EQ(last_of(0.51, 0), 3);
  EXPECT_EQ(last_of(0.76, 0), 0);
  EXPECT_EQ(last_of(0.88, 0), 2);
  // Of the weight that top-k left: 4 of 6.
  EXPECT_EQ(last_of(0.6, 2), 1);
  EXPECT_EQ(last_of(0.7, 2), 3);
}

TEST(TokenChoice, RefusesLogitsThatAreNoNumbers) {
  TokenChoice choice({});
  EXPECT_THROW(choice.choose(std::vector{0.0f, std::numeric_limits<float>::quiet_NaN()}, 0), Error);
  EXPECT_THROW(choice.choose(std::vector{std::numeric_limits<float>::infinity()}, 0), Error);
}

// Of 20,000 draws with a fixed seed, Pearson's chi-square over the five tokens that stay: below the
// 99.9 % quantile of 4 degrees of freedom, 18.47.
TEST(TokenChoice, DrawsHaveTheDistributionOfTheWeights) {
  const std::vector<float> logits = {1.0f, -0.5f, 0.3f, 2.0f, -4.0f, 0.9f, -3.0f};
  const TokenChoiceSettings settings{.temperature = 0.8, .top_k = 5, .top_p = 1};
  std::vector<double> expected(logits.size());
  double total = 0;
  for (const std::size_t kept : {0, 1, 2, 3, 5}) {
    total += expected[kept] = std::exp(logits[kept] / settings.temperature);
  }
  constexpr int kDraws = 20000;
  std::vector<int> counts(logits.size());
  TokenChoice choice(settings);
  for (int i = 0; i < kDraws; ++i) {
    ++counts[static_cast<std::size_t>(
        choice.choose(logits, uniform_draw(1, 2, static_cast<std::uint64_t>(i))))];
  }
  double chi_square = 0;
  for (std::size_t t = 0; t < logits.size(); ++t) {
    const double mean = kDraws * expected[t] / total;
    if (mean == 0) {
      EXPECT_EQ(counts[t], 0);
      continue;
    }
    chi_square += (counts[t] - mean) * (counts[t] - mean) / mean;
  }
  EXPECT_LT(chi_square, 18.47);
  EXPECT_GT(chi_square, 0);
}

TEST(UniformDraw, IsInTheUnitIntervalAndDependsOnAllOfItsKey) {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const double u = uniform_draw(7, 0, i);
    EXPECT_GE(u, 0);
    EXPECT_LT(u, 1);
  }
  EXPECT_EQ(uniform_draw(7, 3, 5), uniform_draw(7, 3, 5));
  EXPECT_NE(uniform_draw(7, 3, 5), uniform_draw(8, 3, 5));
  EXPECT_NE(uniform_draw(7, 3, 5), uniform_draw(7, 4, 5));
  EXPECT_NE(uniform_draw(7, 3, 5), uniform_draw(7, 3, 6));
}

}  // namespace
}  // namespace strata::engine

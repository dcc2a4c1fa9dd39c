#include "engine/data/sample_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace strata::engine {
namespace {

std::vector<std::int64_t> epoch_of(const SampleOrder& order, std::int64_t epoch) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < order.samples(); ++i) {
    samples.push_back(order.at(epoch * order.samples() + i));
  }
  return samples;
}

TEST(SampleOrder, EachEpochIsAPermutation) {
  for (const std::int64_t samples : {1, 2, 3, 4, 5, 7, 16, 17, 1000, 65536, 65537}) {
    const SampleOrder order(samples, 1337);
    for (const std::int64_t epoch : {0, 1, 5}) {
      std::vector<int> seen(static_cast<std::size_t>(samples));
      for (const std::int64_t sample : epoch_of(order, epoch)) {
        ASSERT_TRUE(sample >= 0 && sample < samples) << sample << " of " << samples;
        ASSERT_EQ(seen[static_cast<std::size_t>(sample)]++, 0) << sample << " of " << samples;
      }
      EXPECT_EQ(order.epoch(epoch * samples), epoch);
      EXPECT_EQ(order.epoch(epoch * samples + samples - 1), epoch);
    }
  }
}

TEST(SampleOrder, DependsOnSeedAndEpochAlone) {
  const SampleOrder order(1000, 1);
  EXPECT_EQ(epoch_of(order, 3), epoch_of(SampleOrder(1000, 1), 3));
  const std::vector<std::int64_t> reference = epoch_of(order, 0);
  for (const auto& other : {epoch_of(order, 1), epoch_of(SampleOrder(1000, 2), 0)}) {
    // Two independent permutations agree in one place on average, Poisson: 10 has probability 1e-7.
    int agreements = 0;
    for (std::size_t i = 0; i < reference.size(); ++i) agreements += reference[i] == other[i];
    EXPECT_LT(agreements, 10);
  }
}

TEST(SampleOrder, EverySampleIsEquallyLikelyFirstAndSecond) {
  for (const std::int64_t samples : {3, 7, 50, 1000}) {
    const std::int64_t draws = 40 * samples;
    for (const std::int64_t place : {0, 1}) {
      std::vector<double> counts(static_cast<std::size_t>(samples));
      const SampleOrder order(samples, 99);
      for (std::int64_t epoch = 0; epoch < draws; ++epoch) {
        ++counts[static_cast<std::size_t>(order.at(epoch * samples + place))];
      }
      double chi_square = 0;
      for (const double count : counts) chi_square += (count - 40) * (count - 40) / 40;
      // samples - 1 degrees of freedom: mean samples - 1, variance twice that. Five deviations, and
      // some for the skew of few degrees.
      const auto degrees = static_cast<double>(samples - 1);
      EXPECT_LT(chi_square, degrees + 5 * std::sqrt(2 * degrees) + 8) << samples << ' ' << place;
    }
  }
}

TEST(SampleOrder, NeighboursAreSpreadOut) {
  constexpr std::int64_t kSamples = 65537;
  const SampleOrder order(kSamples, 5);
  double distance = 0;
  for (std::int64_t i = 0; i + 1 < kSamples; ++i) {
    distance += std::abs(static_cast<double>(order.at(i + 1) - order.at(i)));
  }
  // Two uniform samples are a third of the range apart on average, with deviation 0.24 of it; the
  // mean over 65,536 pairs deviates by 0.24 / 256 = 0.001.
  EXPECT_NEAR(distance / (kSamples - 1) / kSamples, 1.0 / 3, 0.005);
}

TEST(SampleOrderDeathTest, RefusesNothingToOrder) { EXPECT_DEATH(SampleOrder(0, 1), "0 samples"); }

}  // namespace
}  // namespace strata::engine

#include "engine/data/sample_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/plan/batch_layout.h"

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

// A run may resume under a later version, so the order never changes. From a script that follows
// the header's description.
TEST(SampleOrder, IsTheOneThatRunsHaveBegunWith) {
  const SampleOrder order(10, 1337);
  EXPECT_EQ(epoch_of(order, 0), (std::vector<std::int64_t>{1, 6, 5, 4, 0, 9, 8, 3, 7, 2}));
  EXPECT_EQ(epoch_of(order, 1), (std::vector<std::int64_t>{5, 8, 6, 1, 9, 2, 7, 0, 3, 4}));
  constexpr std::int64_t kSamples = (std::int64_t{1} << 40) + 7;
  const SampleOrder long_order(kSamples, 42);
  EXPECT_EQ(long_order.at(0), 322463726198);
  EXPECT_EQ(long_order.at(std::int64_t{1} << 32), 848105278655);
  EXPECT_EQ(long_order.at(kSamples - 1), 737636966796);
  EXPECT_EQ(long_order.at(kSamples), 835173388481);  // of the second epoch
}

// Ranks take parts of each step's positions. However many there are, and wherever the run was
// stopped and went on with another number of them, steps visit the same samples, each once.
TEST(SampleOrder, AnyNumberOfRanksVisitsEachSampleOnceAlsoAfterAResume) {
  constexpr std::int64_t kSamples = 126;
  constexpr std::int64_t kGlobalBatch = 7;
  const std::vector<std::int64_t> reference = epoch_of(SampleOrder(kSamples, 3), 2);
  for (const int ranks_before : {1, 2, 3, 7, 9}) {
    for (const int ranks_after : {1, 4, 8}) {
      std::vector<std::int64_t> visited;
      for (std::int64_t step = 0; step < kSamples / kGlobalBatch; ++step) {
        BatchLayout layout;
        layout.global_batch = kGlobalBatch;
        layout.world_size = step < 5 ? ranks_before : ranks_after;
        const std::int64_t position =
            2 * kSamples + step * kGlobalBatch;  // all that a resume needs
        for (int rank = 0; rank < layout.world_size; ++rank) {
          const SampleOrder order(kSamples, 3);
          for (std::int64_t i = 0; i < layout.sequences(rank); ++i) {
            visited.push_back(order.at(position + layout.first_sequence(rank) + i));
          }
        }
      }
      EXPECT_EQ(visited, reference) << ranks_before << " then " << ranks_after;
    }
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

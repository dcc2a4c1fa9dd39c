#include "kernels/base/split_mix.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

// Of Vigna's splitmix64.c, as listed at rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64.
TEST(SplitMix64, GivesThePublishedNumbers) {
  SplitMix64 random{1234567};
  for (const std::uint64_t expected :
       {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u,
        16408922859458223821u}) {
    EXPECT_EQ(random(), expected);
  }
}

TEST(SplitMix64, AnyNumberCanBeHadByItself) {
  SplitMix64 random{42};
  for (std::uint64_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(SplitMix64::finish(42 + i * SplitMix64::kGamma), random());
  }
}

}  // namespace
}  // namespace strata

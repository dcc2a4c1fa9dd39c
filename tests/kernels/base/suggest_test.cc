#include "kernels/base/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata {
namespace {

const std::vector<std::string> kNames{"micro-batch", "global-batch", "min-lr", "lr", "steps"};

TEST(Suggest, FindsTheNameBehindATypingError) {
  EXPECT_EQ(nearest("micro-bacth", kNames), "micro-batch");  // an exchange
  EXPECT_EQ(nearest("globalbatch", kNames), "global-batch");
  EXPECT_EQ(nearest("step", kNames), "steps");
  EXPECT_EQ(nearest("MIN_LR", kNames), "min-lr");
}

TEST(Suggest, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest("checkpoint", kNames), "");
  EXPECT_EQ(nearest("", kNames), "");
  EXPECT_EQ(nearest("steps", {}), "");
}

TEST(Suggest, ShortNamesMayDifferInOneLetter) {
  EXPECT_EQ(nearest("lrr", kNames), "lr");
  EXPECT_EQ(nearest("ab", kNames), "");
}

TEST(Suggest, PrefersTheNearestThenTheFirst) {
  const std::vector<std::string> names{"abcdez", "abcdef", "abcdeg"};
  EXPECT_EQ(nearest("abcdef", names), "abcdef");
  EXPECT_EQ(nearest("abcdex", names), "abcdez");
}

TEST(Suggest, WritesAQuestionForErrorMessages) {
  EXPECT_EQ(did_you_mean("setps", kNames), " (did you mean 'steps'?)");
  EXPECT_EQ(did_you_mean("checkpoint", kNames), "");
}

}  // namespace
}  // namespace strata

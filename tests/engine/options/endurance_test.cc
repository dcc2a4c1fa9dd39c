// --nvme-endurance: units of data sheets, one value or one per drive, and what is refused.
#include <gtest/gtest.h>

#include "engine/options/endurance.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;
using Bytes = std::vector<std::int64_t>;

TEST(Endurance, UnitsAreDecimal) {
  EXPECT_EQ(parse_endurance("600TBW", 1), Bytes{600'000'000'000'000});
  EXPECT_EQ(parse_endurance("1.2PBW", 1), Bytes{1'200'000'000'000'000});
  EXPECT_EQ(parse_endurance("500GBW", 1), Bytes{500'000'000'000});
}

TEST(Endurance, OneValueStandsForEveryDrive) {
  EXPECT_EQ(parse_endurance("1TBW", 3), Bytes(3, 1'000'000'000'000));
  EXPECT_EQ(parse_endurance("1TBW,2TBW", 2), (Bytes{1'000'000'000'000, 2'000'000'000'000}));
  EXPECT_EQ(parse_endurance("", 2), Bytes{});
}

TEST(Endurance, WhatIsNotUnderstoodIsNamed) {
  const auto error_of = [](const char* text, std::size_t directories) {
    return error_text<ConfigError>([&] { parse_endurance(text, directories); });
  };
  for (const char* wrong : {"600", "600TB", "TBW", "0TBW", "-1TBW", "nanTBW", "2000PBW", "1 TBW"}) {
    EXPECT_PRED2(mentions, error_of(wrong, 1), std::string("'") + wrong + "'");
  }
  EXPECT_PRED2(mentions, error_of("1TBW,,2TBW", 3), "''");
  EXPECT_PRED2(mentions, error_of("1TBW,", 1), "after the last comma");
  EXPECT_PRED2(mentions, error_of("1TBW,2TBW", 3), "2 values for 3 directories");
}

TEST(Endurance, SharesOfALifeArePlainDecimals) {
  EXPECT_EQ(life_share_text(0), "0%");
  EXPECT_EQ(life_share_text(4e-9), "less than 0.01%");
  EXPECT_EQ(life_share_text(0.0025), "0.25%");
  EXPECT_EQ(life_share_text(0.015), "1.5%");
  EXPECT_EQ(life_share_text(8.1), "810%");
  EXPECT_EQ(endurance_text(600'000'000'000'000), "600 TBW");
  EXPECT_EQ(endurance_text(4'000'000), "0.004 GBW");
}

}  // namespace
}  // namespace strata::engine

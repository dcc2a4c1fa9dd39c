#include "kernels/base/bytes.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata {
namespace {

TEST(ParseBytes, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("4096B"), 4096);
  EXPECT_EQ(parse_bytes("64k"), 65536);
  EXPECT_EQ(parse_bytes("512MB"), 512'000'000);
  EXPECT_EQ(parse_bytes("512mb"), 512'000'000);
  EXPECT_EQ(parse_bytes("24GiB"), 25'769'803'776);
  EXPECT_EQ(parse_bytes("24 G"), 25'769'803'776);
  EXPECT_EQ(parse_bytes("1.5GiB"), 1'610'612'736);
  EXPECT_EQ(parse_bytes("0.1TB"), 100'000'000'000);
  EXPECT_EQ(parse_bytes("2TiB"), 2'199'023'255'552);
  EXPECT_EQ(parse_bytes("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
}

TEST(ParseBytes, RefusesTheRestAndNamesTheText) {
  for (const char* text :
       {"", "GiB", "-1", "-1GiB", "+1", "1XB", "1Gib/s", "1.GiB", ".5GiB", "1,5G", "1.5", "1.5B",
        "0x10", "1e9", "9223372036854775808", "8388608TiB", "99999999999999999999", "1 2", "nan"}) {
    const std::string error = test::error_text<ConfigError>([&] { (void)parse_bytes(text); });
    EXPECT_TRUE(test::mentions(error, std::string("'") + text + "'")) << error;
  }
}

TEST(FormatBytes, GivesThreeDigitsInBinaryUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(512 * kMiB), "512 MiB");
  EXPECT_EQ(format_bytes(1'503'238'553), "1.4 GiB");  // 1.39999…
  EXPECT_EQ(format_bytes(1'610'612'736), "1.5 GiB");
  EXPECT_EQ(format_bytes(25'000'000'000), "23.3 GiB");  // 23.283
  EXPECT_EQ(format_bytes(kGiB - 1), "1 GiB") << "rounding up changes the unit";
  EXPECT_EQ(format_bytes(std::numeric_limits<std::int64_t>::max()), "8 EiB");
  EXPECT_EQ(format_bytes(-512 * kMiB), "-512 MiB");
}

TEST(Rounding, CeilsToMultiples) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(1, 4), 1);
  EXPECT_EQ(ceil_div(8, 4), 2);
  EXPECT_EQ(round_up(4097, 4096), 8192);
  EXPECT_EQ(round_up(4096, 4096), 4096);
}

}  // namespace
}  // namespace strata

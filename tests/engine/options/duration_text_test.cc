// Lengths of time in the unit that reads best.
#include <gtest/gtest.h>

#include "engine/options/duration_text.h"

namespace strata::engine {
namespace {

TEST(DurationText, HasTheUnitThatReadsBest) {
  EXPECT_EQ(duration_text(0), "0 s");
  EXPECT_EQ(duration_text(0.00042), "0.42 ms");
  EXPECT_EQ(duration_text(0.0123), "12.3 ms");
  EXPECT_EQ(duration_text(0.9994), "999 ms");
  EXPECT_EQ(duration_text(0.99951), "1.00 s");
  EXPECT_EQ(duration_text(8.549), "8.55 s");
  EXPECT_EQ(duration_text(41.2), "41.2 s");
  EXPECT_EQ(duration_text(119), "119 s");
  EXPECT_EQ(duration_text(1120), "18.7 min");
  EXPECT_EQ(duration_text(3 * 3600), "3.0 h");
  EXPECT_EQ(duration_text(10 * 86400), "10.0 days");
  EXPECT_EQ(duration_text(3 * 365.25 * 86400), "3.0 years");
}

}  // namespace
}  // namespace strata::engine

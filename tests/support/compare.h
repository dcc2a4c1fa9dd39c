// Comparing tensors. A NaN anywhere makes the result NaN, which fails every EXPECT_LE.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace strata::testing {

inline double largest(std::span<const float> values) {
  double result = 0;
  for (const float value : values) {
    if (std::isnan(value)) return NAN;
    result = std::max(result, std::abs(double{value}));
  }
  return result;
}

inline double largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  if (a.size() != b.size()) return INFINITY;
  double result = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double{a[i]} - double{b[i]});
    if (std::isnan(difference)) return NAN;
    result = std::max(result, difference);
  }
  return result;
}

}  // namespace strata::testing

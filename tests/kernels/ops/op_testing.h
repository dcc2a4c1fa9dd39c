// What the tests of single ops share beside TestDevice: rounding errors, and the same bits
// everywhere.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "tests/support/test_device.h"

namespace strata::ops {

using strata::testing::DeviceMatrix;
using strata::testing::random_values;
using strata::testing::TestDevice;

// Largest relative error of one rounding to nearest.
inline constexpr double kF32Rounding = 0x1p-24;
inline constexpr double kBf16Rounding = 0x1p-8;

inline double rounding_of(Dtype dtype) {
  return dtype == Dtype::bf16 ? kBf16Rounding : kF32Rounding;
}

// `outputs` runs an op that multiplies no matrices and returns its results; they must be the same
// bits in every instruction set of this machine with 1, 2 and 3 workers, or on a cuda device twice.
using Outputs = std::vector<std::vector<std::byte>>;
inline void expect_same_bits_everywhere(const std::function<Outputs(TestDevice&)>& outputs) {
#ifdef STRATA_TEST_ON_CUDA
  TestDevice device;
  const Outputs once = outputs(device);
  EXPECT_TRUE(outputs(device) == once);
#else
  Outputs first;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (!isa_supported(isa)) continue;
    for (const int threads : {1, 2, 3}) {
      TestDevice device(isa, threads);
      const Outputs here = outputs(device);
      if (first.empty()) first = here;
      EXPECT_TRUE(here == first) << name_of(isa) << ", " << threads << " workers";
    }
  }
#endif
}

}  // namespace strata::ops

// Sums of squares, accumulation and rounding on a GPU give the bits of the CPU's.
#include "optim_cpu/gradient.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/optim_cpu/optim_testing.h"
#include "tests/optim_cuda/device_testing.h"

namespace strata::optim {
namespace {

constexpr std::int64_t kElements = 3 * kSquareSumElements + 77;

class DeviceGradient : public ::testing::Test {
 protected:
  Isa isa() const { return supported_isas().back(); }
  DeviceOptimizer& optimizer() { return gpu_.optimizer(); }
  Stream& stream() { return gpu_.stream(); }

  struct Range {
    std::int64_t first;
    std::int64_t last;
  };
  template <typename T>
  std::vector<double> sums_on_device(std::vector<T> gradient, const std::vector<Range>& ranges) {
    std::vector<double> sums(4, 0.0);
    {
      const OnDevice sums_there(gpu_, sums);
      const OnDevice values(gpu_, gradient);
      constexpr Dtype kDtype = sizeof(T) == 4 ? Dtype::f32 : Dtype::bf16;
      for (const Range& range : ranges) {
        optimizer().add_square_sums(stream(), sums_there.as<double>(), values.as<void>(), kDtype,
                                    range.first, range.last);
      }
    }
    return sums;
  }
  template <typename T>
  std::vector<double> sums_on_cpu(const std::vector<T>& gradient,
                                  const std::vector<Range>& ranges) {
    std::vector<double> sums(4, 0.0);
    bool finite = true;
    for (std::int64_t block = 0; block < 4; ++block) {
      for (const Range& range : ranges) {
        const std::int64_t first = std::max(range.first, block * kSquareSumElements);
        const std::int64_t last = std::min(range.last, (block + 1) * kSquareSumElements);
        if (first >= last) continue;
        sums[static_cast<std::size_t>(block)] += gradient_square_sum(
            std::span<const T>(gradient.data() + first, static_cast<std::size_t>(last - first)),
            isa(), &finite);
      }
    }
    return sums;
  }

  TestGpu gpu_;
};

TEST_F(DeviceGradient, SumsSquaresInTheTreeOfTheCpu) {
  std::mt19937 random(17);
  const Arrays arrays(kElements, random);
  const std::vector<std::vector<Range>> cases = {
      {{0, kElements}},
      {{0, 2 * kSquareSumElements}},
      {{1, 2}},
      {{4095, 4097}},
      {{0, 5}, {6, 4000}, {4090, 4100}, {8192, 8193}, {8200, kElements}}};
  for (const std::vector<Range>& ranges : cases) {
    EXPECT_EQ(sums_on_device(arrays.gradient, ranges), sums_on_cpu(arrays.gradient, ranges));
    EXPECT_EQ(sums_on_device(arrays.gradient_bf16, ranges),
              sums_on_cpu(arrays.gradient_bf16, ranges));
  }
}

TEST_F(DeviceGradient, ASumIsFiniteWhereEveryElementIs) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> gradient(static_cast<std::size_t>(kElements),
                                std::numeric_limits<float>::max());
    gradient[kSquareSumElements + 33] = bad;
    const std::vector<double> sums = sums_on_device(gradient, {{0, kElements}});
    for (std::size_t block = 0; block < sums.size(); ++block) {
      EXPECT_EQ(std::isfinite(sums[block]), block != 1) << block;
    }
  }
}

TEST_F(DeviceGradient, AccumulatesAsTheCpuDoes) {
  std::mt19937 random(19);
  for (const std::int64_t elements : {1, 3, 4, 1029, 4096}) {
    std::vector<float> sums = random_floats(elements, 3, random);
    std::vector<float> addend = random_floats(elements, 3, random);
    std::vector<float> expected = sums;
    optim::accumulate(expected, addend, isa());
    {
      const OnDevice sums_there(gpu_, sums);
      const OnDevice addend_there(gpu_, addend);
      optimizer().accumulate(stream(), sums_there.as<float>(), addend_there.as<float>(), elements);
    }
    EXPECT_EQ(sums, expected);
  }
}

TEST_F(DeviceGradient, RoundsAsTheCpuDoesElsewhereAndInPlace) {
  std::mt19937 random(23);
  for (const std::int64_t elements : {1, 7, 8, 1029, 4096}) {
    std::vector<float> source = random_floats(elements, 30, random);
    source[0] = 1.00390625f;  // a tie
    std::vector<bf16> expected(source.size());
    round_to_bf16(expected, source, isa());
    std::vector<bf16> rounded(source.size());
    {
      const OnDevice there(gpu_, rounded);
      const OnDevice source_there(gpu_, source);
      optimizer().round_to_bf16(stream(), there.as<bf16>(), source_there.as<float>(), elements);
    }
    EXPECT_EQ(rounded, expected);
    {
      const OnDevice there(gpu_, source);
      optimizer().round_to_bf16(stream(), there.as<float>(), elements);
    }
    for (std::size_t i = 0; i < source.size(); ++i) EXPECT_EQ(source[i], to_float(expected[i]));
  }
}

}  // namespace
}  // namespace strata::optim

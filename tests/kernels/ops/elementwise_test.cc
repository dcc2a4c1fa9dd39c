#include "kernels/ops/elementwise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "tests/kernels/ops/op_testing.h"
#ifndef STRATA_TEST_ON_CUDA
#include "kernels/ops/cpu/kernel_table.h"
#endif

namespace strata::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> sweep(double begin, double end, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(count - 1);
    values.push_back(static_cast<float>(begin + (end - begin) * share));
  }
  return values;
}

// u, u' and the two functions as the paper writes them.
struct Gelu {
  double u, slope, value, derivative;
  explicit Gelu(double x) {
    const double k = std::sqrt(2 / std::numbers::pi);
    u = k * (x + 0.044715 * x * x * x);
    slope = k * (1 + 3 * 0.044715 * x * x);
    const double t = std::tanh(u);
    value = 0.5 * x * (1 + t);
    derivative = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope;
  }
};

class Gelus : public ::testing::TestWithParam<Dtype> {};

// e^-2u carries a relative error of a few roundings of its exponent, |2u| times each; what the
// formula itself loses in double precision, where 1 + tanh u cancels, is below 1e-14.
TEST_P(Gelus, MatchTheFormula) {
  const Dtype dtype = GetParam();
  const std::int64_t rows = 41, cols = 199;
  TestDevice device;
  DeviceMatrix x(device, dtype, rows, cols, 1, sweep(-12, 12, rows * cols));
  DeviceMatrix dy(device, dtype, rows, cols, 2, random_values(dtype, rows * cols, 1));
  DeviceMatrix y(device, dtype, rows, cols, 3);
  DeviceMatrix dx(device, dtype, rows, cols, 4);
  gelu_forward(device.stream(), y.view(), x.view());
  gelu_backward(device.stream(), dx.view(), dy.view(), x.view());
  const auto xs = x.get_f64(), dys = dy.get_f64(), ys = y.get_f64(), dxs = dx.get_f64();
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const Gelu exact(xs[i]);
    const double rounding = (16 + 12 * std::abs(2 * exact.u)) * kF32Rounding;
    ASSERT_NEAR(ys[i], exact.value, (rounding + rounding_of(dtype)) * std::abs(exact.value) + 1e-14)
        << "x = " << xs[i];
    const double s = 1 / (1 + std::exp(-2 * exact.u));
    const double terms = s + std::abs(xs[i]) * s * (1 - s) * 2 * exact.slope;
    const double expected = dys[i] * exact.derivative;
    ASSERT_NEAR(
        dxs[i], expected,
        rounding * terms * std::abs(dys[i]) + rounding_of(dtype) * std::abs(expected) + 1e-14)
        << "x = " << xs[i];
  }
}

TEST_P(Gelus, BackwardMayOverwriteDy) {
  const Dtype dtype = GetParam();
  const std::int64_t rows = 5, cols = 48;
  TestDevice device;
  DeviceMatrix x(device, dtype, rows, cols, 0, random_values(dtype, rows * cols, 1));
  DeviceMatrix dy(device, dtype, rows, cols, 0, random_values(dtype, rows * cols, 2));
  DeviceMatrix dx(device, dtype, rows, cols);
  gelu_backward(device.stream(), dx.view(), dy.view(), x.view());
  gelu_backward(device.stream(), dy.view(), dy.view(), x.view());
  EXPECT_EQ(dx.bytes(), dy.bytes());
}

TEST_P(Gelus, FarFromZeroAndNonFinite) {
  TestDevice device;
  const std::vector<float> xs = {0, 100, 1e4, -100, -1e4, kInfinity, kNaN};
  DeviceMatrix x(device, GetParam(), 1, 7, 0, xs);
  DeviceMatrix y(device, GetParam(), 1, 7);
  DeviceMatrix ones(device, GetParam(), 1, 7, 0, std::vector<float>(7, 1));
  gelu_forward(device.stream(), y.view(), x.view());
  gelu_backward(device.stream(), ones.view(), ones.view(), x.view());
  const auto values = y.get_f64(), slopes = ones.get_f64(), stored = x.get_f64();
  for (const int i : {0, 1, 2, 5}) EXPECT_EQ(values[i], stored[i]);
  for (const int i : {3, 4}) EXPECT_NEAR(values[i], 0, 1e-30);
  EXPECT_EQ(slopes[0], 0.5);
  for (const int i : {1, 2}) EXPECT_EQ(slopes[i], 1);
  for (const int i : {3, 4}) EXPECT_NEAR(slopes[i], 0, 1e-20);
  EXPECT_TRUE(std::isnan(values[6]));
  EXPECT_TRUE(std::isnan(slopes[6]));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Gelus, ::testing::Values(Dtype::f32, Dtype::bf16),
                         [](const auto& info) { return name_of(info.param); });

// Multiples of 1/64 below 4: exact in bf16, and so are the sums in f32; the sum in bf16 is rounded
// once, to at most 2^-8 of itself.
TEST(Add, IsExactBeforeItsOneRoundingAlsoInPlace) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const std::int64_t cols : {1, 7, 16, 1000}) {
      const std::int64_t rows = 67;
      auto left = random_values(dtype, rows * cols, 1, 0, 4),
           right = random_values(dtype, rows * cols, 2, 0, 4);
      for (auto* values : {&left, &right}) {
        for (float& value : *values) value = std::fmod(std::round(value * 64) / 64, 4.0f);
      }
      TestDevice device;
      DeviceMatrix a(device, dtype, rows, cols, 2, left), b(device, dtype, rows, cols, 0, right);
      DeviceMatrix y(device, dtype, rows, cols, 1);
      add(device.stream(), y.view(), a.view(), b.view());
      const auto as = a.get_f64(), bs = b.get_f64(), ys = y.get_f64();
      for (std::size_t i = 0; i < ys.size(); ++i) {
        const double sum = as[i] + bs[i];
        ASSERT_NEAR(ys[i], sum, dtype == Dtype::f32 ? 0 : kBf16Rounding * std::abs(sum));
      }
      add(device.stream(), a.view(), a.view(), b.view());
      EXPECT_EQ(a.get_f64(), ys);
      DeviceMatrix again(device, dtype, rows, cols, 2, left);
      add(device.stream(), b.view(), again.view(), b.view());
      EXPECT_EQ(b.get_f64(), ys);
    }
  }
}

#ifndef STRATA_TEST_ON_CUDA

// The nearest of the two bf16 neighbours, by comparing distances; a tie goes to the even one.
std::uint16_t nearest_bf16(float x) {
  const auto magnitude = std::bit_cast<std::uint32_t>(std::abs(x));
  const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
  const auto below = static_cast<std::uint16_t>(magnitude >> 16);
  if ((magnitude & 0xFFFFu) == 0) return sign | below;
  const auto above = static_cast<std::uint16_t>(below + 1);
  const double low = to_float({below});
  const double high = above == 0x7F80 ? 0x1p128 : to_float({above});
  const double middle = (low + high) / 2, exact = std::abs(x);
  const bool up = exact > middle || (exact == middle && (above & 1) == 0);
  return static_cast<std::uint16_t>(sign | (up ? above : below));
}

// What every op that stores or loads bf16 does, in every instruction set.
TEST(Rounding, EveryKindOfF32GoesToTheNearestBf16) {
  std::vector<float> input;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      input.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  std::vector<bf16> first;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (!isa_supported(isa)) continue;
    std::vector<bf16> output(input.size());
    cpu::kernel_table(isa).elementwise.round(output.data(), input.data(), std::ssize(input));
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < input.size(); ++i) {
      wrong += std::isnan(input[i]) ? !std::isnan(to_float(output[i]))
                                    : output[i].bits != nearest_bf16(input[i]);
    }
    EXPECT_EQ(wrong, 0) << name_of(isa);
    if (first.empty()) first = output;
    EXPECT_TRUE(output == first) << name_of(isa);
  }
}

TEST(Rounding, EveryBf16WidensExactly) {
  std::vector<bf16> input(0x10000);
  for (std::size_t i = 0; i < input.size(); ++i) input[i].bits = static_cast<std::uint16_t>(i);
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (!isa_supported(isa)) continue;
    std::vector<float> output(input.size());
    cpu::kernel_table(isa).elementwise.widen(output.data(), input.data(), std::ssize(input));
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(output[i]), i << 16) << name_of(isa);
    }
  }
}

#endif

TEST(ElementwiseBits, AreTheSameForEveryInstructionSetAndNumberOfWorkers) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const std::int64_t rows = 90, cols = 391;
    expect_same_bits_everywhere([&](TestDevice& device) {
      DeviceMatrix x(device, dtype, rows, cols, 1, random_values(dtype, rows * cols, 1, 0, 5));
      DeviceMatrix dy(device, dtype, rows, cols, 0, random_values(dtype, rows * cols, 2));
      DeviceMatrix y(device, dtype, rows, cols);
      DeviceMatrix sum(device, dtype, rows, cols);
      gelu_forward(device.stream(), y.view(), x.view());
      add(device.stream(), sum.view(), x.view(), y.view());
      gelu_backward(device.stream(), dy.view(), dy.view(), x.view());
      return Outputs{y.bytes(), sum.bytes(), dy.bytes()};
    });
  }
}

}  // namespace
}  // namespace strata::ops

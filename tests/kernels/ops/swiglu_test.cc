#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/ops/elementwise.h"
#include "tests/kernels/ops/op_testing.h"

namespace strata::ops {
namespace {

constexpr std::int64_t kRows = 41;
constexpr std::int64_t kCols = 199;

// -12 … 12.
std::vector<float> gate_values() {
  std::vector<float> values;
  for (std::int64_t i = 0; i < kRows * kCols; ++i) {
    values.push_back(static_cast<float>(24.0 * i / (kRows * kCols - 1) - 12));
  }
  return values;
}

// Operands of one call, and its results.
struct Operands {
  DeviceMatrix gate, up, dy, y, dgate, dup;

  Operands(TestDevice& device, Dtype dtype, std::int64_t gap)
      : gate(device, dtype, kRows, kCols, gap, gate_values()),
        up(device, dtype, kRows, kCols, 2 * gap, random_values(dtype, kRows * kCols, 1, 0, 2)),
        dy(device, dtype, kRows, kCols, gap, random_values(dtype, kRows * kCols, 2)),
        y(device, dtype, kRows, kCols, gap),
        dgate(device, dtype, kRows, kCols, 3 * gap),
        dup(device, dtype, kRows, kCols, gap) {
    swiglu_forward(device.stream(), y.view(), gate.view(), up.view());
    swiglu_backward(device.stream(), dgate.view(), dup.view(), dy.view(), gate.view(), up.view());
  }
};

class Swiglu : public ::testing::TestWithParam<Dtype> {
 protected:
  TestDevice device_;
};

// e^-x is within an ulp, two roundings; what follows are at most six operations more, and in the
// derivative twelve, before the one rounding of the result.
TEST_P(Swiglu, MatchesTheFormula) {
  const Dtype dtype = GetParam();
  for (const std::int64_t gap : {0, 1}) {
    const Operands operands(device_, dtype, gap);
    const auto gate = operands.gate.get_f64(), up = operands.up.get_f64();
    const auto dy = operands.dy.get_f64(), y = operands.y.get_f64();
    const auto dgate = operands.dgate.get_f64(), dup = operands.dup.get_f64();
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double s = 1 / (1 + std::exp(-gate[i]));
      const double rest = 1 / (1 + std::exp(gate[i]));  // 1 - s without cancellation
      const double tolerance = 8 * kF32Rounding + rounding_of(dtype);
      const double value = gate[i] * s;
      ASSERT_NEAR(y[i], value * up[i], tolerance * std::abs(value * up[i])) << gate[i];
      ASSERT_NEAR(dup[i], value * dy[i], tolerance * std::abs(value * dy[i])) << gate[i];
      const double slope = dy[i] * up[i] * (s + value * rest);
      const double terms = std::abs(dy[i] * up[i]) * (s + std::abs(value) * rest);
      ASSERT_NEAR(dgate[i], slope, 14 * kF32Rounding * terms + rounding_of(dtype) * std::abs(slope))
          << gate[i];
    }
  }
}

// The halves of one projection, whose gradients replace them.
TEST_P(Swiglu, HalvesOfAPackedMatrixInPlaceGiveTheSameBits) {
  const Operands apart(device_, GetParam(), 0);
  const auto gate = apart.gate.get(), up = apart.up.get();
  std::vector<float> values;
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (const auto* half : {&gate, &up}) {
      values.insert(values.end(), half->begin() + row * kCols, half->begin() + (row + 1) * kCols);
    }
  }
  const DeviceMatrix packed(device_, GetParam(), kRows, 2 * kCols, 3, values);
  const auto half = [&](std::int64_t index) {
    Matrix view = packed.view();
    view.data = static_cast<std::byte*>(view.data) + index * kCols * bytes_of(view.dtype);
    view.cols = kCols;
    return view;
  };
  const DeviceMatrix y(device_, GetParam(), kRows, kCols);
  swiglu_forward(device_.stream(), y.view(), half(0), half(1));
  EXPECT_EQ(y.bytes(), apart.y.bytes());
  EXPECT_EQ(packed.get(), values);

  swiglu_backward(device_.stream(), half(0), half(1), apart.dy.view(), half(0), half(1));
  const auto gradients = packed.get();
  const auto dgate = apart.dgate.get(), dup = apart.dup.get();
  for (std::int64_t i = 0; i < kRows * kCols; ++i) {
    const std::int64_t at = i / kCols * 2 * kCols + i % kCols;
    ASSERT_EQ(gradients[at], dgate[i]) << i;
    ASSERT_EQ(gradients[at + kCols], dup[i]) << i;
  }
}

TEST_P(Swiglu, FarFromZeroAndNonFinite) {
  const std::vector<float> gates = {0,    128,    16384,
                                    -128, -16384, std::numeric_limits<float>::quiet_NaN()};
  const DeviceMatrix gate(device_, GetParam(), 1, 6, 0, gates);
  const DeviceMatrix ones(device_, GetParam(), 1, 6, 0, std::vector<float>(6, 1));
  const DeviceMatrix y(device_, GetParam(), 1, 6), dgate(device_, GetParam(), 1, 6),
      dup(device_, GetParam(), 1, 6);
  swiglu_forward(device_.stream(), y.view(), gate.view(), ones.view());
  swiglu_backward(device_.stream(), dgate.view(), dup.view(), ones.view(), gate.view(),
                  ones.view());
  const auto values = y.get(), slopes = dgate.get();
  for (const int i : {0, 1, 2}) EXPECT_EQ(values[i], gates[i]);
  for (const int i : {3, 4}) EXPECT_NEAR(values[i], 0, 1e-30);
  EXPECT_EQ(slopes[0], 0.5f);
  for (const int i : {1, 2}) EXPECT_EQ(slopes[i], 1);
  for (const int i : {3, 4}) EXPECT_NEAR(slopes[i], 0, 1e-30);
  EXPECT_TRUE(std::isnan(values[5]) && std::isnan(slopes[5]));
  const auto silus = dup.get();
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(silus[i], values[i], 1e-30);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Swiglu, ::testing::Values(Dtype::f32, Dtype::bf16),
                         [](const auto& info) { return name_of(info.param); });

TEST(SwigluBits, AreTheSameForEveryInstructionSetAndNumberOfWorkers) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    expect_same_bits_everywhere([&](TestDevice& device) {
      const Operands operands(device, dtype, 1);
      return Outputs{operands.y.bytes(), operands.dgate.bytes(), operands.dup.bytes()};
    });
  }
}

}  // namespace
}  // namespace strata::ops

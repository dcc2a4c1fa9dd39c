#include "kernels/ops/linear.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/ops/op_testing.h"
#include "tests/kernels/ops/reference.h"

namespace strata::ops {
namespace {

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};
// Single entries, non-multiples of every block, several tiles each way, several panels of each sum.
constexpr Shape kShapes[] = {{1, 1, 1},    {7, 13, 5},    {1, 96, 33},     {65, 1, 130},
                             {33, 200, 1}, {300, 70, 40}, {20, 600, 1100}, {1030, 40, 24}};
constexpr CpuOpsLimits kLimits = {
    .weight_rows_max = 640, .weight_cols_max = 1100, .rows_max = 1030};

// Storage and arithmetic; strides with and without gaps between the rows.
struct Mode {
  Dtype operands;
  Dtype result;
  Dtype arithmetic;
  std::int64_t gap;
};
constexpr Mode kModes[] = {
    {Dtype::f32, Dtype::f32, Dtype::f32, 0},    {Dtype::f32, Dtype::f32, Dtype::f32, 3},
    {Dtype::bf16, Dtype::bf16, Dtype::bf16, 0}, {Dtype::bf16, Dtype::bf16, Dtype::bf16, 5},
    {Dtype::bf16, Dtype::f32, Dtype::bf16, 0},  {Dtype::bf16, Dtype::bf16, Dtype::f32, 0},
    {Dtype::bf16, Dtype::f32, Dtype::f32, 7}};

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

// Products of bf16 are exact in f32, those of f32 are rounded; `terms` additions are rounded, in
// whatever order: at most (terms + 2)·2^-24 of the sum of magnitudes. Rounding the result to bf16
// adds half a unit in the last of 8 places, 2^-8 of the value.
void expect_close(const std::vector<float>& actual, const reference::Sums& expected,
                  std::int64_t terms, Dtype result) {
  ASSERT_EQ(actual.size(), expected.value.size());
  const double rounding = result == Dtype::bf16 ? 0x1p-8 : 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double sum_error = static_cast<double>(terms + 2) * 0x1p-24 * expected.magnitude[i];
    const double tolerance = sum_error + rounding * (std::abs(expected.value[i]) + sum_error);
    ASSERT_NEAR(actual[i], expected.value[i], tolerance) << "entry " << i;
  }
}

class Linear : public ::testing::TestWithParam<Mode> {};

TEST_P(Linear, ForwardAgreesWithDoublePrecision) {
  const Mode mode = GetParam();
  TestDevice device(kLimits, mode.arithmetic);
  for (const auto& [m, n, k] : kShapes) {
    const auto x = random_values(mode.operands, m * k, 1);
    const auto w = random_values(mode.operands, n * k, 2);
    const auto b = random_values(mode.operands, n, 3);
    const DeviceMatrix x_device(device, mode.operands, m, k, mode.gap, x);
    const DeviceMatrix w_device(device, mode.operands, n, k, mode.gap, w);
    const DeviceMatrix b_device(device, mode.operands, 1, n, 0, b);
    DeviceMatrix y(device, mode.result, m, n, mode.gap);

    auto expected = reference::matmul(x, reference::transpose(w, as_size(n), as_size(k)),
                                      as_size(m), as_size(n), as_size(k));
    linear_forward(device.stream(), y.view(), x_device.view(), w_device.view(), nullptr);
    expect_close(y.get(), expected, k, mode.result);

    linear_forward(device.stream(), y.view(), x_device.view(), w_device.view(),
                   b_device.view().data);
    reference::add_to_rows(expected, b);
    expect_close(y.get(), expected, k + 1, mode.result);
  }
}

TEST_P(Linear, BackwardInputAgreesWithDoublePrecision) {
  const Mode mode = GetParam();
  TestDevice device(kLimits, mode.arithmetic);
  for (const auto& [m, n, k] : kShapes) {
    const auto dy = random_values(mode.operands, m * n, 1);
    const auto w = random_values(mode.operands, n * k, 2);
    const DeviceMatrix dy_device(device, mode.operands, m, n, mode.gap, dy);
    const DeviceMatrix w_device(device, mode.operands, n, k, mode.gap, w);
    DeviceMatrix dx(device, mode.result, m, k, mode.gap);

    auto expected = reference::matmul(dy, w, as_size(m), as_size(k), as_size(n));
    linear_backward_input(device.stream(), dx.view(), dy_device.view(), w_device.view(),
                          Into::overwrite);
    expect_close(dx.get(), expected, n, mode.result);

    if (mode.result != Dtype::f32) continue;
    const auto before = random_values(Dtype::f32, m * k, 3);
    const DeviceMatrix sum(device, mode.result, m, k, mode.gap, before);
    linear_backward_input(device.stream(), sum.view(), dy_device.view(), w_device.view(),
                          Into::add);
    reference::add(expected, before);
    expect_close(sum.get(), expected, n + 1, mode.result);
  }
}

TEST_P(Linear, BackwardWeightAgreesWithDoublePrecision) {
  const Mode mode = GetParam();
  TestDevice device(kLimits, mode.arithmetic);
  for (const auto& [m, n, k] : kShapes) {
    const auto dy = random_values(mode.operands, m * n, 1);
    const auto x = random_values(mode.operands, m * k, 2);
    const DeviceMatrix dy_device(device, mode.operands, m, n, mode.gap, dy);
    const DeviceMatrix x_device(device, mode.operands, m, k, mode.gap, x);
    DeviceMatrix dw(device, Dtype::f32, n, k, mode.gap);
    DeviceMatrix dbias(device, Dtype::f32, 1, n);

    auto weights = reference::matmul(reference::transpose(dy, as_size(m), as_size(n)), x,
                                     as_size(n), as_size(k), as_size(m));
    auto sums = reference::column_sums(dy, as_size(m), as_size(n));
    linear_backward_weight(device.stream(), dw.view(), dbias.f32(), dy_device.view(),
                           x_device.view(), Into::overwrite);
    expect_close(dw.get(), weights, m, Dtype::f32);
    expect_close(dbias.get(), sums, m, Dtype::f32);

    const auto dw_before = random_values(Dtype::f32, n * k, 3);
    const auto dbias_before = random_values(Dtype::f32, n, 4);
    const DeviceMatrix dw_sum(device, Dtype::f32, n, k, mode.gap, dw_before);
    const DeviceMatrix dbias_sum(device, Dtype::f32, 1, n, 0, dbias_before);
    linear_backward_weight(device.stream(), dw_sum.view(), dbias_sum.f32(), dy_device.view(),
                           x_device.view(), Into::add);
    reference::add(weights, dw_before);
    reference::add(sums, dbias_before);
    expect_close(dw_sum.get(), weights, m + 1, Dtype::f32);
    expect_close(dbias_sum.get(), sums, m + 1, Dtype::f32);
  }
}

// What lies between the rows of a result belongs to others.
TEST_P(Linear, GapsBetweenRowsStayAsTheyWere) {
  const Mode mode = GetParam();
  TestDevice device(kLimits, mode.arithmetic);
  const auto [m, n, k] = kShapes[5];
  const DeviceMatrix x(device, mode.operands, m, k, 0, random_values(mode.operands, m * k, 1));
  const DeviceMatrix w(device, mode.operands, n, k, 0, random_values(mode.operands, n * k, 2));
  const std::int64_t gap = 9;
  DeviceMatrix y(device, mode.result, m, n, gap);
  const auto before = y.bytes();
  linear_forward(device.stream(), y.view(), x.view(), w.view(), nullptr);
  const auto bytes = y.bytes();
  const auto element_bytes = as_size(bytes_of(mode.result));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i / element_bytes % as_size(n + gap) < as_size(n)) continue;
    ASSERT_EQ(bytes[i], before[i]) << "byte " << i;
  }
}

TEST_P(Linear, BitsDoNotDependOnTheNumberOfThreads) {
  const Mode mode = GetParam();
  const auto [m, n, k] = Shape{530, 600, 560};
  std::vector<std::vector<std::byte>> first;
  for (const int threads : {1, 2, 3}) {
    TestDevice device(kLimits, mode.arithmetic, threads);
    const DeviceMatrix x(device, mode.operands, m, k, 0, random_values(mode.operands, m * k, 1));
    const DeviceMatrix w(device, mode.operands, n, k, 0, random_values(mode.operands, n * k, 2));
    const DeviceMatrix b(device, mode.operands, 1, n, 0, random_values(mode.operands, n, 3));
    const DeviceMatrix dy(device, mode.operands, m, n, 0, random_values(mode.operands, m * n, 4));
    DeviceMatrix y(device, mode.result, m, n);
    DeviceMatrix dx(device, mode.result, m, k);
    DeviceMatrix dw(device, Dtype::f32, n, k);
    DeviceMatrix dbias(device, Dtype::f32, 1, n);
    linear_forward(device.stream(), y.view(), x.view(), w.view(), b.view().data);
    linear_backward_input(device.stream(), dx.view(), dy.view(), w.view(), Into::overwrite);
    linear_backward_weight(device.stream(), dw.view(), dbias.f32(), dy.view(), x.view(), Into::add);
    const std::vector<std::vector<std::byte>> results = {y.bytes(), dx.bytes(), dw.bytes(),
                                                         dbias.bytes()};
    if (first.empty()) first = results;
    EXPECT_EQ(results, first) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Linear, ::testing::ValuesIn(kModes), [](const auto& info) {
  const Mode& mode = info.param;
  return fmt::format("{}_to_{}_in_{}_gap{}", name_of(mode.operands), name_of(mode.result),
                     name_of(mode.arithmetic), mode.gap);
});

// 1 + 2^-8 lies halfway between two bf16 and goes to the even one, 1; a 1 more in the last place of
// the f32 sum goes up. Rounding twice, or truncating, gives something else.
TEST(LinearRounding, Bf16ResultsAreRoundedOnceToNearestEven) {
  for (const Dtype arithmetic : {Dtype::bf16, Dtype::f32}) {
    TestDevice device(kLimits, arithmetic, 1);
    const DeviceMatrix x(device, Dtype::bf16, 2, 3, 0, {1, 0x1p-8f, 0, 1, 0x1p-8f, 0x1p-20f});
    const DeviceMatrix w(device, Dtype::bf16, 1, 3, 0, {1, 1, 1});
    DeviceMatrix y(device, Dtype::bf16, 2, 1);
    linear_forward(device.stream(), y.view(), x.view(), w.view(), nullptr);
    EXPECT_EQ(y.get(), (std::vector<float>{1.0f, 1.0f + 0x1p-7f})) << name_of(arithmetic);
  }
}

TEST(LinearDeathTest, RefusesShapesThatDoNotFit) {
  TestDevice device(kLimits, Dtype::bf16, 1);
  const DeviceMatrix x(device, Dtype::f32, 4, 8);
  const DeviceMatrix w(device, Dtype::f32, 5, 9);
  const DeviceMatrix y(device, Dtype::f32, 4, 5);
  EXPECT_DEATH(linear_forward(device.stream(), y.view(), x.view(), w.view(), nullptr),
               "x \\(4, 8\\)");
}

}  // namespace
}  // namespace strata::ops

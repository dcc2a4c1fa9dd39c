// linear_gelu_forward and linear_gelu_backward_input of linear.h.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "kernels/ops/elementwise.h"
#include "kernels/ops/linear.h"
#include "tests/kernels/ops/op_testing.h"
#include "tests/kernels/ops/reference.h"
#ifdef STRATA_CUDA_SIM
#include "cuda_sim/device.h"
#endif

namespace strata::ops {
namespace {

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};
constexpr Shape kShapes[] = {{1, 1, 1}, {7, 13, 5}, {33, 64, 40}, {65, 200, 130}};
constexpr CpuOpsLimits kLimits = {.weight_rows_max = 200, .weight_cols_max = 200, .rows_max = 65};

// With a gap of 8 every row of a bf16 matrix whose columns are a multiple of 8 begins at 16 bytes.
struct Mode {
  Dtype dtype;
  Dtype arithmetic;
  std::int64_t gap;
};
constexpr Mode kModes[] = {{Dtype::f32, Dtype::f32, 0},
                           {Dtype::f32, Dtype::f32, 3},
                           {Dtype::bf16, Dtype::bf16, 0},
                           {Dtype::bf16, Dtype::bf16, 8},
                           {Dtype::bf16, Dtype::f32, 5}};

constexpr double kSlopeMax = 1.13;  // of gelu

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double k = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(k * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}

// As in linear_test.cc.
double sum_error(const reference::Sums& sums, std::size_t i, std::int64_t terms) {
  return static_cast<double>(terms + 2) * 0x1p-24 * sums.magnitude[i];
}

class LinearGelu : public ::testing::TestWithParam<Mode> {};

// y may be made of h before or after h is rounded, which moves y by a rounding of h times a slope;
// gelu itself loses some roundings of f32, as elementwise_test.cc derives.
TEST_P(LinearGelu, ForwardAgreesWithDoublePrecision) {
  const auto [dtype, arithmetic, gap] = GetParam();
  TestDevice device(kLimits, arithmetic);
  for (const auto& [m, n, k] : kShapes) {
    const auto x = random_values(dtype, m * k, 1);
    const auto w = random_values(dtype, n * k, 2);
    const auto b = random_values(dtype, n, 3);
    const DeviceMatrix x_device(device, dtype, m, k, gap, x);
    const DeviceMatrix w_device(device, dtype, n, k, gap, w);
    const DeviceMatrix b_device(device, dtype, 1, n, 0, b);
    DeviceMatrix h(device, dtype, m, n, gap);
    DeviceMatrix y(device, dtype, m, n, gap);
    auto expected = reference::matmul(x, reference::transpose(w, as_size(n), as_size(k)),
                                      as_size(m), as_size(n), as_size(k));
    for (const void* bias :
         {static_cast<const void*>(nullptr), static_cast<const void*>(b_device.view().data)}) {
      if (bias != nullptr) reference::add_to_rows(expected, b);
      linear_gelu_forward(device.stream(), y.view(), h.view(), x_device.view(), w_device.view(),
                          bias);
      const auto hs = h.get_f64(), ys = y.get_f64();
      for (std::size_t i = 0; i < hs.size(); ++i) {
        const double exact = expected.value[i];
        const double h_error = sum_error(expected, i, k + 1) + rounding_of(dtype) * std::abs(exact);
        ASSERT_NEAR(hs[i], exact, h_error * (1 + rounding_of(dtype))) << "entry " << i;
        ASSERT_NEAR(ys[i], gelu(exact),
                    kSlopeMax * h_error + (rounding_of(dtype) + 64 * kF32Rounding) *
                                              (std::abs(gelu(exact)) + h_error))
            << "entry " << i;
      }
    }
  }
}

// h is what it is; the product may be rounded before it is multiplied with the slope.
TEST_P(LinearGelu, BackwardInputAgreesWithDoublePrecision) {
  const auto [dtype, arithmetic, gap] = GetParam();
  TestDevice device(kLimits, arithmetic);
  for (const auto& [m, n, k] : kShapes) {
    const auto dy = random_values(dtype, m * n, 1);
    const auto w = random_values(dtype, n * k, 2);
    const DeviceMatrix dy_device(device, dtype, m, n, gap, dy);
    const DeviceMatrix w_device(device, dtype, n, k, gap, w);
    const DeviceMatrix h(device, dtype, m, k, gap, random_values(dtype, m * k, 3));
    DeviceMatrix dh(device, dtype, m, k, gap);
    const auto expected = reference::matmul(dy, w, as_size(m), as_size(k), as_size(n));
    linear_gelu_backward_input(device.stream(), dh.view(), dy_device.view(), w_device.view(),
                               h.view());
    const auto hs = h.get_f64(), dhs = dh.get_f64();
    for (std::size_t i = 0; i < hs.size(); ++i) {
      const double product = expected.value[i];
      const double product_error =
          sum_error(expected, i, n) + rounding_of(dtype) * std::abs(product);
      const double exact = product * gelu_slope(hs[i]);
      ASSERT_NEAR(dhs[i], exact,
                  kSlopeMax * product_error + 64 * kF32Rounding * std::abs(product) +
                      rounding_of(dtype) * (std::abs(exact) + kSlopeMax * product_error))
          << "entry " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, LinearGelu, ::testing::ValuesIn(kModes), [](const auto& info) {
  const Mode& mode = info.param;
  return fmt::format("{}_in_{}_gap{}", name_of(mode.dtype), name_of(mode.arithmetic), mode.gap);
});

#if !defined(STRATA_TEST_ON_CUDA) || defined(STRATA_CUDA_SIM)
// One kernel of both takes gelu of what is not yet rounded.
bool is_one_kernel(Dtype dtype) {
  TestDevice device(kLimits, Dtype::f32);
  const auto [m, n, k] = kShapes[2];
  const DeviceMatrix x(device, dtype, m, k, 0, random_values(dtype, m * k, 1));
  const DeviceMatrix w(device, dtype, n, k, 0, random_values(dtype, n * k, 2));
  DeviceMatrix h(device, dtype, m, n), y(device, dtype, m, n);
  DeviceMatrix h_apart(device, dtype, m, n), y_apart(device, dtype, m, n);
  linear_gelu_forward(device.stream(), y.view(), h.view(), x.view(), w.view(), nullptr);
  linear_forward(device.stream(), h_apart.view(), x.view(), w.view(), nullptr);
  gelu_forward(device.stream(), y_apart.view(), h_apart.view());
  EXPECT_EQ(h.bytes(), h_apart.bytes());
  return y.bytes() != y_apart.bytes();
}
#endif

#ifndef STRATA_TEST_ON_CUDA
TEST(LinearGelu, IsTwoKernels) {
  EXPECT_FALSE(is_one_kernel(Dtype::f32));
  EXPECT_FALSE(is_one_kernel(Dtype::bf16));
}
#elif defined(STRATA_CUDA_SIM)
TEST(LinearGelu, IsOneKernelInBf16OnSomeGpus) {
  for (const int capability : {8, 9, 10, 12}) {
    cuda_sim::set_capability(capability);
    EXPECT_FALSE(is_one_kernel(Dtype::f32)) << capability;
    EXPECT_EQ(is_one_kernel(Dtype::bf16), capability == 9 || capability == 10) << capability;
  }
  cuda_sim::set_capability(9);
}
#endif

}  // namespace
}  // namespace strata::ops

#include "kernels/ops/rmsnorm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "tests/kernels/ops/op_testing.h"

namespace strata::ops {
namespace {

constexpr float kEpsilon = 0.015625f;

struct Shape {
  std::int64_t rows;
  std::int64_t groups;
  std::int64_t width;
};

struct Case {
  Shape shape;
  Dtype x;
  Dtype dy;
};

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  const auto& [shape, x, dy] = info.param;
  return fmt::format("{}x{}x{}_{}_{}", shape.rows, shape.groups, shape.width, name_of(x),
                     name_of(dy));
}

// More than one tile and set of rows, more than one tile of columns, more groups than a set has,
// and odd sizes of each.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& [x, dy] :
       {std::pair{Dtype::f32, Dtype::f32}, {Dtype::bf16, Dtype::bf16}, {Dtype::bf16, Dtype::f32}}) {
    for (const Shape& shape : {Shape{150, 1, 1},
                               {150, 1, 7},
                               {131, 1, 48},
                               {4, 1, 1000},
                               {70, 3, 16},
                               {37, 5, 130},
                               {3, 150, 2}}) {
      cases.push_back({shape, x, dy});
    }
  }
  return cases;
}

// One group in double precision.
struct ExactGroup {
  double rstd;

  explicit ExactGroup(const double* x, std::int64_t width) {
    double mean_square = 0;
    for (std::int64_t i = 0; i < width; ++i) mean_square += x[i] * x[i] / double(width);
    rstd = 1 / std::sqrt(mean_square + double{kEpsilon});
  }
};

class RmsNorm : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const auto [rows, groups, width] = shape_;
    const Dtype x_dtype = GetParam().x, dy_dtype = GetParam().dy;
    const std::int64_t cols = groups * width;
    x_.emplace(device_, x_dtype, rows, cols, 3, random_values(x_dtype, rows * cols, 1, 0.5f, 1.7f));
    dy_.emplace(device_, dy_dtype, rows, cols, 5, random_values(dy_dtype, rows * cols, 2));
    weight_.emplace(device_, x_dtype, 1, width, 0, random_values(x_dtype, width, 3, 1, 0.5f));
    rstd_.emplace(device_, Dtype::f32, rows, groups);
    y_.emplace(device_, x_dtype, rows, cols, 1);
    rmsnorm_forward(device_.stream(), y_->view(), rstd_->f32(), x_->view(), weight_->view(),
                    kEpsilon);
  }

  // Longest chain of additions in a group, times two passes, and a few single operations.
  double group_rounding() const {
    return (static_cast<double>(shape_.width) / 8 + 32) * kF32Rounding;
  }

  const Shape shape_ = GetParam().shape;
  TestDevice device_;
  std::optional<DeviceMatrix> x_, dy_, weight_, rstd_, y_;
};

TEST_P(RmsNorm, ForwardMatchesTheFormula) {
  const auto x = x_->get_f64(), weight = weight_->get_f64();
  const auto y = y_->get_f64(), rstd = rstd_->get_f64();
  const std::int64_t width = shape_.width;
  for (std::int64_t group = 0; group < shape_.rows * shape_.groups; ++group) {
    const ExactGroup exact(&x[group * width], width);
    EXPECT_NEAR(rstd[group], exact.rstd, group_rounding() * exact.rstd);
    for (std::int64_t i = 0; i < width; ++i) {
      const double expected = x[group * width + i] * exact.rstd * weight[i];
      ASSERT_NEAR(y[group * width + i], expected,
                  (group_rounding() + rounding_of(GetParam().x)) * std::abs(expected))
          << "group " << group << ", column " << i;
    }
  }
}

// dx of sum(dy · y), by central differences of the forward formula in double precision. Relative to
// rstd their error is h² rstd² / 2 or less, 4e-9 here, and the rounding of the sum over h, 1e-8.
std::vector<double> numeric_dx(const double* x, const double* dy,
                               const std::vector<double>& weight) {
  const double step = 1e-5;
  std::vector<double> group(x, x + weight.size());
  const auto loss = [&] {
    const ExactGroup exact(group.data(), std::ssize(group));
    double total = 0;
    for (std::size_t i = 0; i < group.size(); ++i) total += dy[i] * weight[i] * group[i];
    return total * exact.rstd;
  };
  std::vector<double> dx;
  for (std::size_t i = 0; i < group.size(); ++i) {
    group[i] = x[i] + step;
    const double above = loss();
    group[i] = x[i] - step;
    dx.push_back((above - loss()) / (2 * step));
    group[i] = x[i];
  }
  return dx;
}

TEST_P(RmsNorm, BackwardMatchesDifferencesOfTheFormula) {
  const auto [rows, groups, width] = shape_;
  const Dtype dtype = GetParam().x;
  const auto x = x_->get_f64(), dy = dy_->get_f64(), weight = weight_->get_f64();
  for (const Into into : {Into::overwrite, Into::add}) {
    const double keeps = into == Into::add ? 1 : 0;
    DeviceMatrix dx(device_, dtype, rows, groups * width, 2,
                    random_values(dtype, rows * groups * width, 5));
    DeviceMatrix dweight(device_, Dtype::f32, 1, width, 0, random_values(Dtype::f32, width, 6));
    const auto old_dx = dx.get_f64(), old_dweight = dweight.get_f64();
    rmsnorm_backward(device_.stream(), dx.view(), into, dweight.view(), into, dy_->view(),
                     x_->view(), weight_->view(), rstd_->f32());
    std::vector<double> exact_dweight(width), dweight_size(width);
    const auto got = dx.get_f64();
    for (std::int64_t group = 0; group < rows * groups; ++group) {
      const std::int64_t begin = group * width;
      const ExactGroup exact(&x[begin], width);
      const auto expected = numeric_dx(&x[begin], &dy[begin], weight);
      double g_max = 0, n_max = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const double n = x[begin + i] * exact.rstd;
        g_max = std::max(g_max, std::abs(dy[begin + i] * weight[i]));
        n_max = std::max(n_max, std::abs(n));
        exact_dweight[i] += dy[begin + i] * n;
        dweight_size[i] += std::abs(dy[begin + i] * n);
      }
      // |g| + |n · mean(g n)|, and the differences' own error
      const double magnitude = exact.rstd * g_max * (1 + n_max * n_max);
      for (std::int64_t i = 0; i < width; ++i) {
        const double sum = expected[i] + keeps * old_dx[begin + i];
        ASSERT_NEAR(got[begin + i], sum,
                    (group_rounding() + 2e-8) * magnitude + rounding_of(dtype) * std::abs(sum))
            << "group " << group << ", column " << i;
      }
    }
    const auto got_dweight = dweight.get_f64();
    const double rounding = group_rounding() + static_cast<double>(rows * groups) * kF32Rounding;
    for (std::int64_t i = 0; i < width; ++i) {
      const double before = keeps * old_dweight[i];
      ASSERT_NEAR(got_dweight[i], before + exact_dweight[i],
                  rounding * (dweight_size[i] + std::abs(before)));
    }
  }
}

TEST_P(RmsNorm, ForwardInPlaceGivesTheSameBits) {
  const auto [rows, groups, width] = shape_;
  DeviceMatrix rstd(device_, Dtype::f32, rows, groups);
  rmsnorm_forward(device_.stream(), x_->view(), rstd.f32(), x_->view(), weight_->view(), kEpsilon);
  EXPECT_EQ(x_->get(), y_->get());
  EXPECT_EQ(rstd.bytes(), rstd_->bytes());
}

TEST_P(RmsNorm, BackwardInPlaceGivesTheSameBits) {
  const auto [rows, groups, width] = shape_;
  const Dtype dtype = GetParam().x;
  const auto old_x = x_->get(), old_dy = dy_->get();
  const auto backward = [&](const DeviceMatrix& dx, const DeviceMatrix& dy, const DeviceMatrix& x) {
    DeviceMatrix dweight(device_, Dtype::f32, 1, width);
    rmsnorm_backward(device_.stream(), dx.view(), Into::overwrite, dweight.view(), Into::overwrite,
                     dy.view(), x.view(), weight_->view(), rstd_->f32());
    return std::pair(dx.get(), dweight.bytes());
  };
  const DeviceMatrix dx(device_, dtype, rows, groups * width);
  const auto apart = backward(dx, *dy_, *x_);
  EXPECT_EQ(x_->get(), old_x);
  EXPECT_EQ(dy_->get(), old_dy);
  const DeviceMatrix x(device_, dtype, rows, groups * width, 2, old_x);
  EXPECT_EQ(backward(x, *dy_, x), apart);
  if (GetParam().dy == dtype) {
    EXPECT_EQ(backward(*dy_, *dy_, *x_), apart);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RmsNorm, ::testing::ValuesIn(all_cases()), name_of_case);

TEST(RmsNormEpsilon, KeepsARowOfZerosFinite) {
  TestDevice device;
  const DeviceMatrix x(device, Dtype::f32, 1, 5), y(device, Dtype::f32, 1, 5);
  const DeviceMatrix weight(device, Dtype::f32, 1, 5, 0, std::vector<float>(5, 2));
  const DeviceMatrix rstd(device, Dtype::f32, 1, 1);
  rmsnorm_forward(device.stream(), y.view(), rstd.f32(), x.view(), weight.view(), 0x1p-20f);
  EXPECT_EQ(y.get(), std::vector<float>(5, 0));
  EXPECT_EQ(rstd.get().front(), 1024.0f);
}

TEST(RmsNormDeathTest, RefusesAWeightThatDoesNotDivideTheRows) {
  TestDevice device;
  const DeviceMatrix x(device, Dtype::f32, 2, 8), rstd(device, Dtype::f32, 2, 2);
  const DeviceMatrix weight(device, Dtype::f32, 1, 3);
  EXPECT_DEATH(rmsnorm_forward(device.stream(), x.view(), rstd.f32(), x.view(), weight.view(), 1),
               "a weight \\(1, 3\\) for rows of 8 columns");
}

TEST(RmsNormBits, AreTheSameForEveryInstructionSetAndNumberOfWorkers) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const auto& [rows, groups, width] : {Shape{200, 1, 391}, Shape{200, 5, 34}}) {
      expect_same_bits_everywhere([&, cols = groups * width](TestDevice& device) {
        DeviceMatrix x(device, dtype, rows, cols, 3,
                       random_values(dtype, rows * cols, 1, 0.5f, 1.7f));
        DeviceMatrix dy(device, Dtype::f32, rows, cols, 0,
                        random_values(Dtype::f32, rows * cols, 2));
        DeviceMatrix weight(device, dtype, 1, width, 0, random_values(dtype, width, 3, 1));
        DeviceMatrix y(device, dtype, rows, cols);
        DeviceMatrix rstd(device, Dtype::f32, rows, groups);
        DeviceMatrix dweight(device, Dtype::f32, 1, width);
        rmsnorm_forward(device.stream(), y.view(), rstd.f32(), x.view(), weight.view(), 1e-6f);
        rmsnorm_backward(device.stream(), x.view(), Into::overwrite, dweight.view(), Into::add,
                         dy.view(), x.view(), weight.view(), rstd.f32());
        return Outputs{y.bytes(), rstd.bytes(), x.bytes(), dweight.bytes()};
      });
    }
  }
}

}  // namespace
}  // namespace strata::ops

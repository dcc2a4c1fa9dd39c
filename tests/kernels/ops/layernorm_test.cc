#include "kernels/ops/layernorm.h"

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

struct Case {
  std::int64_t rows;
  std::int64_t cols;
  Dtype x;
  Dtype dy;
};

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return fmt::format("{}x{}_{}_{}", c.rows, c.cols, name_of(c.x), name_of(c.dy));
}

// More than one tile and group of rows, more than one tile of columns, and odd sizes of each.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& [x, dy] :
       {std::pair{Dtype::f32, Dtype::f32}, {Dtype::bf16, Dtype::bf16}, {Dtype::bf16, Dtype::f32}}) {
    for (const auto& [rows, cols] :
         {std::pair{150, 1}, {150, 7}, {3, 16}, {131, 48}, {5, 384}, {4, 1000}}) {
      cases.push_back({rows, cols, x, dy});
    }
  }
  return cases;
}

// One row in double precision.
struct ExactRow {
  double mean = 0;
  double rstd = 0;
  double mean_abs = 0;

  explicit ExactRow(const double* x, std::int64_t cols) {
    for (std::int64_t i = 0; i < cols; ++i) mean += x[i] / static_cast<double>(cols);
    for (std::int64_t i = 0; i < cols; ++i) mean_abs += std::abs(x[i]) / static_cast<double>(cols);
    double variance = 0;
    for (std::int64_t i = 0; i < cols; ++i) {
      variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(cols);
    }
    rstd = 1 / std::sqrt(variance + double{kLayerNormEpsilon});
  }
  double normalised(double x) const { return (x - mean) * rstd; }
  // What rounding errors of a normalised value are relative to: its terms before they cancel.
  double magnitude(double x) const { return (std::abs(x) + mean_abs) * rstd; }
};

class LayerNorm : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const auto [rows, cols, x_dtype, dy_dtype] = GetParam();
    x_.emplace(device_, x_dtype, rows, cols, 3, random_values(x_dtype, rows * cols, 1, 0.5f, 1.7f));
    dy_.emplace(device_, dy_dtype, rows, cols, 5, random_values(dy_dtype, rows * cols, 2));
    weight_.emplace(device_, x_dtype, 1, cols, 0, random_values(x_dtype, cols, 3, 1, 0.5f));
    bias_.emplace(device_, x_dtype, 1, cols, 0, random_values(x_dtype, cols, 4));
    mean_.emplace(device_, Dtype::f32, 1, rows);
    rstd_.emplace(device_, Dtype::f32, 1, rows);
    y_.emplace(device_, x_dtype, rows, cols, 1);
    layernorm_forward(device_.stream(), y_->view(), mean_->f32(), rstd_->f32(), x_->view(),
                      weight_->f32(), bias_->f32());
  }

  // Longest chain of additions in a row, times two passes, and a few single operations.
  double row_rounding() const { return (GetParam().cols / 8.0 + 32) * kF32Rounding; }

  TestDevice device_;
  std::optional<DeviceMatrix> x_, dy_, weight_, bias_, mean_, rstd_, y_;
};

TEST_P(LayerNorm, ForwardMatchesTheFormula) {
  const auto [rows, cols, x_dtype, dy_dtype] = GetParam();
  const auto x = x_->get_f64(), weight = weight_->get_f64(), bias = bias_->get_f64();
  const auto y = y_->get_f64(), mean = mean_->get_f64(), rstd = rstd_->get_f64();
  for (std::int64_t row = 0; row < rows; ++row) {
    const ExactRow exact(&x[row * cols], cols);
    EXPECT_NEAR(mean[row], exact.mean, row_rounding() * exact.mean_abs);
    EXPECT_NEAR(rstd[row], exact.rstd, row_rounding() * exact.rstd);
    for (std::int64_t i = 0; i < cols; ++i) {
      const double value = x[row * cols + i];
      const double expected = exact.normalised(value) * weight[i] + bias[i];
      const double magnitude = exact.magnitude(value) * std::abs(weight[i]) + std::abs(bias[i]);
      ASSERT_NEAR(y[row * cols + i], expected,
                  row_rounding() * magnitude + rounding_of(x_dtype) * std::abs(expected))
          << "row " << row << ", column " << i;
    }
  }
}

// dx of sum(dy · y), by central differences of the forward formula in double precision. Their
// error, h²/6 times the third derivative, is of the order 1e-8 · rstd.
std::vector<double> numeric_dx(const double* x, const double* dy, const std::vector<double>& weight,
                               std::int64_t cols) {
  const double step = 1e-4;
  std::vector<double> row(x, x + cols);
  const auto loss = [&] {
    const ExactRow exact(row.data(), cols);
    double total = 0;
    for (std::int64_t i = 0; i < cols; ++i) total += dy[i] * weight[i] * exact.normalised(row[i]);
    return total;
  };
  std::vector<double> dx;
  for (std::int64_t i = 0; i < cols; ++i) {
    row[i] = x[i] + step;
    const double above = loss();
    row[i] = x[i] - step;
    dx.push_back((above - loss()) / (2 * step));
    row[i] = x[i];
  }
  return dx;
}

TEST_P(LayerNorm, BackwardMatchesDifferencesOfTheFormula) {
  const auto [rows, cols, x_dtype, dy_dtype] = GetParam();
  const auto start = random_values(x_dtype, rows * cols, 5);
  const auto x = x_->get_f64(), dy = dy_->get_f64(), weight = weight_->get_f64();
  const auto parameter_start = random_values(Dtype::f32, cols, 6);
  for (const Into into : {Into::overwrite, Into::add}) {
    DeviceMatrix dx(device_, x_dtype, rows, cols, 2, start);
    DeviceMatrix dweight(device_, Dtype::f32, 1, cols, 0, parameter_start);
    DeviceMatrix dbias(device_, Dtype::f32, 1, cols, 0, parameter_start);
    const auto old_dx = dx.get_f64(), old = dweight.get_f64();
    layernorm_backward(device_.stream(), dx.view(), into, dweight.f32(), dbias.f32(), into,
                       dy_->view(), x_->view(), weight_->f32(), mean_->f32(), rstd_->f32());
    const bool adds = into == Into::add;
    std::vector<double> exact_dweight(cols), exact_dbias(cols), dweight_size(cols),
        dbias_size(cols);
    const auto got = dx.get_f64();
    for (std::int64_t row = 0; row < rows; ++row) {
      const ExactRow exact(&x[row * cols], cols);
      const auto expected = numeric_dx(&x[row * cols], &dy[row * cols], weight, cols);
      double g_max = 0, n_max = 0;
      for (std::int64_t i = 0; i < cols; ++i) {
        const std::int64_t at = row * cols + i;
        g_max = std::max(g_max, std::abs(dy[at] * weight[i]));
        n_max = std::max(n_max, exact.magnitude(x[at]));
        exact_dweight[i] += dy[at] * exact.normalised(x[at]);
        dweight_size[i] += std::abs(dy[at]) * exact.magnitude(x[at]);
        exact_dbias[i] += dy[at];
        dbias_size[i] += std::abs(dy[at]);
      }
      // |g| + |mean g| + |n · mean(g n)|, and the differences' own error
      const double magnitude = exact.rstd * g_max * (2 + n_max * n_max);
      for (std::int64_t i = 0; i < cols; ++i) {
        const std::int64_t at = row * cols + i;
        const double sum = expected[i] + (adds ? old_dx[at] : 0);
        ASSERT_NEAR(got[at], sum,
                    (row_rounding() + 1e-7) * magnitude + rounding_of(x_dtype) * std::abs(sum))
            << "row " << row << ", column " << i;
      }
    }
    const auto got_dweight = dweight.get_f64(), got_dbias = dbias.get_f64();
    const double rounding = row_rounding() + static_cast<double>(rows) * kF32Rounding;
    for (std::int64_t i = 0; i < cols; ++i) {
      const double before = adds ? old[i] : 0;
      ASSERT_NEAR(got_dweight[i], before + exact_dweight[i],
                  rounding * (dweight_size[i] + std::abs(before)));
      ASSERT_NEAR(got_dbias[i], before + exact_dbias[i],
                  rounding * (dbias_size[i] + std::abs(before)));
    }
  }
}

TEST_P(LayerNorm, BackwardInPlaceGivesTheSameBits) {
  const auto [rows, cols, x_dtype, dy_dtype] = GetParam();
  DeviceMatrix dx(device_, x_dtype, rows, cols, 3);
  DeviceMatrix dweight(device_, Dtype::f32, 2, cols);
  DeviceMatrix dbias(device_, Dtype::f32, 2, cols);
  for (const Matrix& out : {dx.view(), x_->view()}) {
    const std::int64_t offset = out.data == dx.view().data ? 0 : cols;
    layernorm_backward(device_.stream(), out, Into::overwrite, dweight.f32() + offset,
                       dbias.f32() + offset, Into::overwrite, dy_->view(), x_->view(),
                       weight_->f32(), mean_->f32(), rstd_->f32());
  }
  EXPECT_EQ(dx.bytes(), x_->bytes());
  for (const DeviceMatrix* gradient : {&dweight, &dbias}) {
    const auto values = gradient->get_f64();
    EXPECT_TRUE(std::equal(values.begin(), values.begin() + cols, values.begin() + cols));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, LayerNorm, ::testing::ValuesIn(all_cases()), name_of_case);

// A cuda device has a block's sums of columns in shared memory only where they fit.
TEST(LayerNormParameters, OfRowsThatAreVeryWide) {
  const std::int64_t rows = 9, cols = 13001;
  TestDevice device;
  const DeviceMatrix x(device, Dtype::bf16, rows, cols, 3,
                       random_values(Dtype::bf16, rows * cols, 1, 0.5f, 1.7f));
  const DeviceMatrix dy(device, Dtype::bf16, rows, cols, 0,
                        random_values(Dtype::bf16, rows * cols, 2));
  const DeviceMatrix weight(device, Dtype::bf16, 1, cols, 0,
                            random_values(Dtype::bf16, cols, 3, 1));
  const DeviceMatrix y(device, Dtype::bf16, rows, cols), dx(device, Dtype::bf16, rows, cols);
  const DeviceMatrix stats(device, Dtype::f32, 2, rows), gradients(device, Dtype::f32, 2, cols);
  layernorm_forward(device.stream(), y.view(), stats.f32(), stats.f32() + rows, x.view(),
                    weight.f32(), weight.f32());
  layernorm_backward(device.stream(), dx.view(), Into::overwrite, gradients.f32(),
                     gradients.f32() + cols, Into::overwrite, dy.view(), x.view(), weight.f32(),
                     stats.f32(), stats.f32() + rows);
  const auto xs = x.get_f64(), dys = dy.get_f64(), got = gradients.get_f64();
  std::vector<double> dweight(cols), dbias(cols), size(cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    const ExactRow exact(&xs[row * cols], cols);
    for (std::int64_t i = 0; i < cols; ++i) {
      const std::int64_t at = row * cols + i;
      dweight[i] += dys[at] * exact.normalised(xs[at]);
      dbias[i] += dys[at];
      size[i] += std::abs(dys[at]) * (1 + exact.magnitude(xs[at]));
    }
  }
  const double rounding = (static_cast<double>(cols) / 8 + 32 + rows) * kF32Rounding;
  for (std::int64_t i = 0; i < cols; ++i) {
    ASSERT_NEAR(got[i], dweight[i], rounding * size[i]) << i;
    ASSERT_NEAR(got[cols + i], dbias[i], rounding * size[i]) << i;
  }
}

TEST(LayerNormBits, AreTheSameForEveryInstructionSetAndNumberOfWorkers) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const std::int64_t cols : {7, 391}) {
      const std::int64_t rows = 200;
      expect_same_bits_everywhere([&](TestDevice& device) {
        DeviceMatrix x(device, dtype, rows, cols, 3,
                       random_values(dtype, rows * cols, 1, 0.5f, 1.7f));
        DeviceMatrix dy(device, Dtype::f32, rows, cols, 0,
                        random_values(Dtype::f32, rows * cols, 2));
        DeviceMatrix weight(device, dtype, 1, cols, 0, random_values(dtype, cols, 3, 1));
        DeviceMatrix y(device, dtype, rows, cols);
        DeviceMatrix stats(device, Dtype::f32, 2, rows);
        DeviceMatrix gradients(device, Dtype::f32, 2, cols);
        layernorm_forward(device.stream(), y.view(), stats.f32(), stats.f32() + rows, x.view(),
                          weight.f32(), weight.f32());
        layernorm_backward(device.stream(), x.view(), Into::overwrite, gradients.f32(),
                           gradients.f32() + cols, Into::add, dy.view(), x.view(), weight.f32(),
                           stats.f32(), stats.f32() + rows);
        return Outputs{y.bytes(), stats.bytes(), x.bytes(), gradients.bytes()};
      });
    }
  }
}

}  // namespace
}  // namespace strata::ops

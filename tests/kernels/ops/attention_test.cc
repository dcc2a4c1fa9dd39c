#include "kernels/ops/attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/ops/op_testing.h"
#include "tests/kernels/ops/reference.h"

namespace strata::ops {
namespace {

// Single entries, one tile, several tiles of queries and of keys with rests.
constexpr AttentionShape kShapes[] = {{2, 1, 1, 1},   {1, 5, 3, 7},    {2, 64, 2, 16},
                                      {1, 130, 2, 8}, {2, 300, 1, 64}, {1, 520, 2, 24}};
constexpr CpuOpsLimits kLimits = {.weight_rows_max = 256,
                                  .weight_cols_max = 256,
                                  .rows_max = 600,
                                  .tokens_max = 520,
                                  .head_dim = 64};
constexpr float kQueryScale = 8;  // scores that differ by much more than 1

struct Mode {
  Dtype dtype;
  Dtype arithmetic;
  std::int64_t gap;
};
constexpr Mode kModes[] = {{Dtype::f32, Dtype::f32, 0},
                           {Dtype::f32, Dtype::f32, 5},
                           {Dtype::bf16, Dtype::bf16, 0},
                           {Dtype::bf16, Dtype::bf16, 3},
                           {Dtype::bf16, Dtype::f32, 0}};

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

// (tokens, head_dim) of one head, from (B·T, cols).
std::vector<float> head_of(const std::vector<float>& packed, const AttentionShape& shape,
                           std::int64_t batch, std::int64_t first_col, std::int64_t cols) {
  std::vector<float> rows;
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    for (std::int64_t c = 0; c < shape.head_dim; ++c) {
      rows.push_back(packed[as_size((batch * shape.tokens + t) * cols + first_col + c)]);
    }
  }
  return rows;
}

void put_head(std::vector<float>& packed, const AttentionShape& shape, std::int64_t batch,
              std::int64_t first_col, std::int64_t cols, const std::vector<double>& rows) {
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    for (std::int64_t c = 0; c < shape.head_dim; ++c) {
      packed[as_size((batch * shape.tokens + t) * cols + first_col + c)] =
          static_cast<float>(rows[as_size(t * shape.head_dim + c)]);
    }
  }
}

std::vector<float> random_qkv(const AttentionShape& shape, Dtype dtype) {
  auto qkv = random_values(dtype, shape.rows() * 3 * shape.channels(), 1);
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    if (i % as_size(3 * shape.channels()) < as_size(shape.channels())) qkv[i] *= kQueryScale;
  }
  return qkv;
}

// f(batch, first column, index in (B, H, T), head) for every head.
template <typename F>
void for_each_head(const AttentionShape& shape, const std::vector<float>& qkv, const F& f) {
  const std::int64_t channels = shape.channels();
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const std::int64_t col = h * shape.head_dim;
      const auto part = [&](std::int64_t section) {
        return head_of(qkv, shape, batch, section * channels + col, 3 * channels);
      };
      f(batch, col, (batch * shape.heads + h) * shape.tokens,
        reference::Head{as_size(shape.tokens), as_size(shape.head_dim), part(0), part(1), part(2)});
    }
  }
}

// Relative errors of f32: a score is a dot product of head_dim terms of at most kQueryScale, times
// 1/sqrt(head_dim), so an exponent is off by at most (head_dim +
// 2)·2^-24·kQueryScale·sqrt(head_dim) and as much again through its normaliser, whose own rounding
// is some 2^-24 of its size
// (< kQueryScale·sqrt(head_dim) + ln T < 100). Sums over at most T terms and head_dim terms, exp,
// and the rescalings add T + head_dim + 32 roundings.
double f32_error(const AttentionShape& shape) {
  const auto d = static_cast<double>(shape.head_dim);
  const auto tokens = static_cast<double>(shape.tokens);
  return (2 * (d + 2) * kQueryScale * std::sqrt(d) + 100 + tokens + d + 32) * 0x1p-24;
}

// With bf16, probabilities or score gradients are rounded (2^-8 of each term), and so is the
// result.
void expect_close(const std::vector<float>& actual, const reference::Sums& expected,
                  const AttentionShape& shape, Dtype dtype, const char* what) {
  ASSERT_EQ(actual.size(), expected.value.size());
  const double rounding = dtype == Dtype::bf16 ? 0x1p-8 : 0x1p-24;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double terms = (rounding + f32_error(shape)) * expected.magnitude[i];
    const double tolerance = terms + rounding * (std::abs(expected.value[i]) + terms);
    ASSERT_NEAR(actual[i], expected.value[i], tolerance)
        << what << " entry " << i << ", T " << shape.tokens << ", head_dim " << shape.head_dim;
  }
}

class Attention : public ::testing::TestWithParam<Mode> {};

TEST_P(Attention, ForwardAgreesWithDoublePrecision) {
  const Mode mode = GetParam();
  TestDevice device(kLimits, mode.arithmetic);
  for (const AttentionShape& shape : kShapes) {
    const std::int64_t channels = shape.channels();
    const auto qkv = random_qkv(shape, mode.dtype);
    const DeviceMatrix qkv_device(device, mode.dtype, shape.rows(), 3 * channels, mode.gap, qkv);
    DeviceMatrix out(device, mode.dtype, shape.rows(), channels, mode.gap);
    DeviceMatrix log_sum_exp(device, Dtype::f32, 1, shape.rows() * shape.heads);
    attention_forward(device.stream(), shape, out.view(), log_sum_exp.f32(), qkv_device.view());

    const auto actual = out.get();
    const auto actual_log_sums = log_sum_exp.get();
    for_each_head(shape, qkv, [&](auto batch, auto col, auto row, const reference::Head& head) {
      const auto expected = reference::attention_forward(head);
      expect_close(head_of(actual, shape, batch, col, channels), expected.out, shape, mode.dtype,
                   "out");
      for (std::int64_t t = 0; t < shape.tokens; ++t) {
        ASSERT_NEAR(actual_log_sums[as_size(row + t)], expected.log_sum_exp[as_size(t)],
                    f32_error(shape));
      }
    });
  }
}

TEST_P(Attention, BackwardAgreesWithDoublePrecision) {
  const Mode mode = GetParam();
  TestDevice device(kLimits, mode.arithmetic);
  for (const AttentionShape& shape : kShapes) {
    const std::int64_t channels = shape.channels();
    const auto qkv = random_qkv(shape, mode.dtype);
    const auto dout = random_values(mode.dtype, shape.rows() * channels, 2);
    // The forward's results from the reference, so that only the backward is under test.
    std::vector<float> forward_out(as_size(shape.rows() * channels));
    std::vector<float> forward_log_sums(as_size(shape.rows() * shape.heads));
    for_each_head(shape, qkv, [&](auto batch, auto col, auto row, const reference::Head& head) {
      const auto forward = reference::attention_forward(head);
      put_head(forward_out, shape, batch, col, channels, forward.out.value);
      for (std::int64_t t = 0; t < shape.tokens; ++t) {
        forward_log_sums[as_size(row + t)] = static_cast<float>(forward.log_sum_exp[as_size(t)]);
      }
    });
    const DeviceMatrix qkv_device(device, mode.dtype, shape.rows(), 3 * channels, mode.gap, qkv);
    const DeviceMatrix dout_device(device, mode.dtype, shape.rows(), channels, mode.gap, dout);
    DeviceMatrix out(device, mode.dtype, shape.rows(), channels, mode.gap, forward_out);
    const DeviceMatrix log_sum_exp(device, Dtype::f32, 1, shape.rows() * shape.heads, 0,
                                   forward_log_sums);
    const DeviceMatrix row_dots(device, Dtype::f32, 1, shape.rows() * shape.heads);
    DeviceMatrix dqkv(device, mode.dtype, shape.rows(), 3 * channels, mode.gap);
    attention_backward(device.stream(), shape, dqkv.view(), row_dots.f32(), dout_device.view(),
                       qkv_device.view(), out.view(), log_sum_exp.f32());

    const auto actual = dqkv.get();
    const auto stored_out = out.get();
    for_each_head(shape, qkv, [&](auto batch, auto col, auto row, const reference::Head& head) {
      const std::vector<float> log_sums(forward_log_sums.begin() + row,
                                        forward_log_sums.begin() + row + shape.tokens);
      const auto expected =
          reference::attention_backward(head, head_of(dout, shape, batch, col, channels),
                                        head_of(stored_out, shape, batch, col, channels), log_sums);
      const auto part = [&](std::int64_t section) {
        return head_of(actual, shape, batch, section * channels + col, 3 * channels);
      };
      expect_close(part(0), expected.dq, shape, mode.dtype, "dq");
      expect_close(part(1), expected.dk, shape, mode.dtype, "dk");
      expect_close(part(2), expected.dv, shape, mode.dtype, "dv");
    });
  }
}

TEST_P(Attention, BitsDoNotDependOnTheNumberOfThreads) {
  const Mode mode = GetParam();
  const AttentionShape shape = {2, 400, 3, 32};
  const std::int64_t channels = shape.channels();
  std::vector<std::vector<std::byte>> first;
  for (const int threads : {1, 2, 3}) {
    TestDevice device(kLimits, mode.arithmetic, threads);
    const DeviceMatrix qkv(device, mode.dtype, shape.rows(), 3 * channels, mode.gap,
                           random_qkv(shape, mode.dtype));
    const DeviceMatrix dout(device, mode.dtype, shape.rows(), channels, mode.gap,
                            random_values(mode.dtype, shape.rows() * channels, 2));
    DeviceMatrix out(device, mode.dtype, shape.rows(), channels);
    DeviceMatrix dqkv(device, mode.dtype, shape.rows(), 3 * channels);
    DeviceMatrix log_sum_exp(device, Dtype::f32, 1, shape.rows() * shape.heads);
    const DeviceMatrix row_dots(device, Dtype::f32, 1, shape.rows() * shape.heads);
    attention_forward(device.stream(), shape, out.view(), log_sum_exp.f32(), qkv.view());
    attention_backward(device.stream(), shape, dqkv.view(), row_dots.f32(), dout.view(), qkv.view(),
                       out.view(), log_sum_exp.f32());
    const std::vector<std::vector<std::byte>> results = {out.bytes(), log_sum_exp.bytes(),
                                                         dqkv.bytes()};
    if (first.empty()) first = results;
    EXPECT_EQ(results, first) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Attention, ::testing::ValuesIn(kModes), [](const auto& info) {
  const Mode& mode = info.param;
  return fmt::format("{}_in_{}_gap{}", name_of(mode.dtype), name_of(mode.arithmetic), mode.gap);
});

}  // namespace
}  // namespace strata::ops

#include "kernels/ops/attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/base/bytes.h"
#include "tests/kernels/ops/attention_testing.h"
#include "tests/kernels/ops/reference.h"

namespace strata::ops {
namespace {

constexpr CpuOpsLimits kLimits = {.weight_rows_max = 256,
                                  .weight_cols_max = 256,
                                  .rows_max = 2100,
                                  .tokens_max = 2100,
                                  .head_dim = 256,
                                  .heads_per_kv_head = 6};

// Single entries, one tile, several tiles of queries and of keys with rests; every way to share KV
// heads under every kind of mask; the head sizes of published models.
std::vector<AttentionCase> cases() {
  std::vector<AttentionCase> all = {
      {{2, 1, 1, 1, 1}},
      {{1, 5, 3, 3, 7}},
      {{2, 64, 2, 2, 16}},
      {{1, 130, 2, 2, 8}},
      {{1, 520, 2, 1, 24}},
      {{2, 300, 1, 1, 64}, 0, Documents::one, 0.05f},
      {{1, 140, 2, 1, 80}, 0, Documents::one, 0.2f},
      {{1, 140, 2, 2, 96}, 30},
      {{1, 200, 2, 1, 128}, 0, Documents::random},
      {{1, 260, 1, 1, 256}, 129, Documents::random},
      {{1, 2100, 4, 2, 8}, 60},
  };
  for (const auto& [heads, kv_heads] : {std::pair(4, 4), std::pair(4, 2), std::pair(6, 1)}) {
    for (const std::int64_t window : {0, 1, 7, 128, 1000}) {
      for (const Documents documents : {Documents::one, Documents::random}) {
        all.push_back({{2, 390, heads, kv_heads, 8}, window, documents});
      }
    }
  }
  return all;
}

// What a library plans for: each kind of mask, of head size and of KV heads.
std::vector<AttentionCase> planned_cases() {
  return {{{2, 132, 4, 4, 64}},
          {{1, 260, 6, 1, 24}, 128},
          {{1, 132, 2, 1, 128}, 1000},
          {{3, 68, 2, 2, 80}, 7}};
}

// Plans for micro-batches of 2 sequences, and so for 1, of which 3 are made up.
CpuOpsLimits limits_planned_for(const AttentionCase& of, std::int64_t workspace_bytes_max) {
  CpuOpsLimits limits = kLimits;
  limits.attention = {.shape = of.shape,
                      .window = of.window,
                      .qk_stride = of.shape.packed_channels(),
                      .has_backward = true,
                      .workspace_bytes_max = workspace_bytes_max};
  limits.attention.shape.batch = 2;
  return limits;
}

struct Mode {
  Dtype dtype;
  Dtype arithmetic;
  std::int64_t gap;  // 0: packed
};
constexpr Mode kModes[] = {{Dtype::f32, Dtype::f32, 0},
                           {Dtype::f32, Dtype::f32, 5},
                           {Dtype::bf16, Dtype::bf16, 0},
                           {Dtype::bf16, Dtype::bf16, 3},
                           {Dtype::bf16, Dtype::f32, 0}};

double scale_of(const AttentionCase& of) {
  return of.scale.value_or(
      static_cast<float>(1 / std::sqrt(static_cast<double>(of.shape.head_dim))));
}

// (T, D) of one head of one sequence, from (B·T, heads·D).
std::vector<float> head_of(const std::vector<float>& all, const AttentionShape& shape,
                           std::int64_t heads, std::int64_t sequence, std::int64_t head) {
  std::vector<float> rows;
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    const auto row = all.begin() + ((sequence * shape.tokens + t) * heads + head) * shape.head_dim;
    rows.insert(rows.end(), row, row + shape.head_dim);
  }
  return rows;
}

void put_head(std::vector<float>& all, const AttentionShape& shape, std::int64_t sequence,
              std::int64_t head, const std::vector<double>& rows) {
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    for (std::int64_t c = 0; c < shape.head_dim; ++c) {
      all[as_size(((sequence * shape.tokens + t) * shape.heads + head) * shape.head_dim + c)] =
          static_cast<float>(rows[as_size(t * shape.head_dim + c)]);
    }
  }
}

// One query head with the keys and values that it uses and what it sees of them.
reference::Head reference_head(const AttentionCase& of, const HostQkv& qkv, std::int64_t sequence,
                               std::int64_t head) {
  const AttentionShape& shape = of.shape;
  const std::int64_t kv_head = head / shape.heads_per_kv_head();
  reference::Head result = {as_size(shape.tokens),
                            as_size(shape.head_dim),
                            head_of(qkv.q, shape, shape.heads, sequence, head),
                            head_of(qkv.k, shape, shape.kv_heads, sequence, kv_head),
                            head_of(qkv.v, shape, shape.kv_heads, sequence, kv_head),
                            scale_of(of),
                            {}};
  const std::vector<std::int32_t> starts = random_document_starts(shape);
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    std::int64_t first = of.window == 0 ? 0 : std::max<std::int64_t>(0, t - of.window + 1);
    if (of.documents == Documents::random) {
      first = std::max<std::int64_t>(first, starts[as_size(sequence * shape.tokens + t)]);
    }
    result.first_visible.push_back(as_size(first));
  }
  return result;
}

// f(sequence, head, where its T rows begin in (B, H, T)) for every query head.
template <typename F>
void for_each_head(const AttentionShape& shape, const F& f) {
  for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      f(sequence, head, (sequence * shape.heads + head) * shape.tokens);
    }
  }
}

// Relative errors of f32: a score is a dot product of D terms of at most kQueryScale, times the
// scale, so an exponent is off by at most (D + 2)·2^-24·kQueryScale·D·scale and as much again
// through its normaliser, whose own rounding is some 2^-24 of its size (< kQueryScale·D·scale +
// ln T). Sums over at most T terms of each head that shares a KV head and over D terms, exp, and
// the rescalings add G·T + D + 32 roundings.
double f32_error(const AttentionCase& of) {
  const auto d = static_cast<double>(of.shape.head_dim);
  const auto terms = static_cast<double>(of.shape.tokens * of.shape.heads_per_kv_head());
  const double score_max = kQueryScale * d * scale_of(of);
  return (2 * (d + 2) * score_max + score_max + std::log(terms) + terms + d + 32) * 0x1p-24;
}

// With bf16, probabilities or score gradients are rounded (2^-8 of each term), and so is the
// result.
void expect_close(const std::vector<float>& actual, const reference::Sums& expected,
                  const AttentionCase& of, Dtype dtype, const char* what) {
  ASSERT_EQ(actual.size(), expected.value.size());
  const double rounding = rounding_of(dtype);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double terms = (rounding + f32_error(of)) * expected.magnitude[i];
    const double tolerance = terms + rounding * (std::abs(expected.value[i]) + terms);
    ASSERT_NEAR(actual[i], expected.value[i], tolerance)
        << what << " entry " << i << ", T " << of.shape.tokens << ", D " << of.shape.head_dim
        << ", H " << of.shape.heads << "/" << of.shape.kv_heads << ", window " << of.window
        << (of.documents == Documents::random ? ", documents" : "");
  }
}

void expect_forward(TestDevice& device, const Mode& mode, const AttentionCase& of) {
  const AttentionShape& shape = of.shape;
  const HostQkv qkv = random_qkv(shape, mode.dtype);
  const DeviceQkv qkv_device(device, shape, mode.dtype, mode.gap, qkv);
  const DeviceOptions options(device, of);
  DeviceMatrix out(device, mode.dtype, shape.rows(), shape.channels(), mode.gap);
  DeviceMatrix log_sum_exp(device, Dtype::f32, 1, shape.rows() * shape.heads);
  attention_forward(device.stream(), shape, options, out.view(), log_sum_exp.f32(),
                    qkv_device.views());

  const auto actual = out.get();
  const auto actual_log_sums = log_sum_exp.get();
  for_each_head(shape, [&](auto sequence, auto head, auto row) {
    const auto expected = reference::attention_forward(reference_head(of, qkv, sequence, head));
    expect_close(head_of(actual, shape, shape.heads, sequence, head), expected.out, of, mode.dtype,
                 "out");
    for (std::int64_t t = 0; t < shape.tokens; ++t) {
      ASSERT_NEAR(actual_log_sums[as_size(row + t)], expected.log_sum_exp[as_size(t)],
                  f32_error(of));
    }
  });
}

// What a forward left, from the reference, so that only the backward is under test.
struct Forward {
  std::vector<float> out;
  std::vector<float> log_sums;
};
Forward reference_forward(const AttentionCase& of, const HostQkv& qkv) {
  const AttentionShape& shape = of.shape;
  Forward forward = {std::vector<float>(as_size(shape.rows() * shape.channels())), {}};
  for_each_head(shape, [&](auto sequence, auto head, auto /*row*/) {
    const auto result = reference::attention_forward(reference_head(of, qkv, sequence, head));
    put_head(forward.out, shape, sequence, head, result.out.value);
    forward.log_sums.insert(forward.log_sums.end(), result.log_sum_exp.begin(),
                            result.log_sum_exp.end());
  });
  return forward;
}

void expect_backward(TestDevice& device, const Mode& mode, const AttentionCase& of) {
  const AttentionShape& shape = of.shape;
  const HostQkv qkv = random_qkv(shape, mode.dtype);
  const auto dout = random_values(mode.dtype, shape.rows() * shape.channels(), 4);
  const Forward forward = reference_forward(of, qkv);
  const DeviceQkv qkv_device(device, shape, mode.dtype, mode.gap, qkv);
  const DeviceQkv gradients(device, shape, mode.dtype, mode.gap);
  const DeviceOptions options(device, of);
  const auto matrix = [&](const std::vector<float>& values) {
    return DeviceMatrix(device, mode.dtype, shape.rows(), shape.channels(), mode.gap, values);
  };
  const DeviceMatrix dout_device = matrix(dout);
  const DeviceMatrix out = matrix(forward.out);
  const DeviceMatrix log_sum_exp(device, Dtype::f32, 1, shape.rows() * shape.heads, 0,
                                 forward.log_sums);
  const DeviceMatrix row_dots(device, Dtype::f32, 1, shape.rows() * shape.heads);
  attention_backward(device.stream(), shape, options, gradients.views(), row_dots.f32(),
                     dout_device.view(), qkv_device.views(), out.view(), log_sum_exp.f32());

  const HostQkv actual = gradients.get();
  const auto stored_out = out.get();
  reference::Sums dk;
  reference::Sums dv;
  for_each_head(shape, [&](auto sequence, auto head, auto row) {
    const auto of_head = [&](const std::vector<float>& all) {
      return head_of(all, shape, shape.heads, sequence, head);
    };
    const auto expected = reference::attention_backward(
        reference_head(of, qkv, sequence, head), of_head(dout), of_head(stored_out),
        {forward.log_sums.begin() + row, forward.log_sums.begin() + row + shape.tokens});
    expect_close(of_head(actual.q), expected.dq, of, mode.dtype, "dq");
    const std::int64_t members = shape.heads_per_kv_head();
    if (head % members == 0) {
      dk = expected.dk;
      dv = expected.dv;
    } else {
      reference::add(dk, expected.dk);
      reference::add(dv, expected.dv);
    }
    if (head % members != members - 1) return;
    const auto of_kv_head = [&](const std::vector<float>& all) {
      return head_of(all, shape, shape.kv_heads, sequence, head / members);
    };
    expect_close(of_kv_head(actual.k), dk, of, mode.dtype, "dk");
    expect_close(of_kv_head(actual.v), dv, of, mode.dtype, "dv");
  });
}

class Attention : public ::testing::TestWithParam<Mode> {};

TEST_P(Attention, ForwardAgreesWithDoublePrecision) {
  TestDevice device(kLimits, GetParam().arithmetic);
  for (const AttentionCase& of : cases()) expect_forward(device, GetParam(), of);
}

TEST_P(Attention, BackwardAgreesWithDoublePrecision) {
  TestDevice device(kLimits, GetParam().arithmetic);
  for (const AttentionCase& of : cases()) expect_backward(device, GetParam(), of);
}

// On a cuda device by a library where it has plans: the backward whole, and with room for one KV
// head of two in slices.
TEST(PlannedAttention, AgreesWithDoublePrecision) {
  constexpr Mode kMode = {Dtype::bf16, Dtype::bf16, 0};
  for (const AttentionCase& of : planned_cases()) {
    TestDevice device(limits_planned_for(of, 64 * kMiB), kMode.arithmetic);
    expect_forward(device, kMode, of);
    expect_backward(device, kMode, of);
  }
  const AttentionCase of = {{2, 300, 4, 2, 8}};
  TestDevice device(limits_planned_for(of, 512 * kKiB), kMode.arithmetic);
  expect_backward(device, kMode, of);
}

// Forward and backward, twice on the same device.
TEST_P(Attention, GivesTheSameBitsTwice) {
  const Mode mode = GetParam();
  TestDevice device(kLimits, mode.arithmetic);
  const AttentionShape shape = {2, 130, 6, 1, 8};
  const DeviceQkv qkv(device, shape, mode.dtype, mode.gap, random_qkv(shape, mode.dtype));
  const DeviceMatrix dout(device, mode.dtype, shape.rows(), shape.channels(), mode.gap,
                          random_values(mode.dtype, shape.rows() * shape.channels(), 4));
  std::vector<std::vector<float>> first;
  for (int time = 0; time < 2; ++time) {
    const DeviceQkv gradients(device, shape, mode.dtype, mode.gap);
    DeviceMatrix out(device, mode.dtype, shape.rows(), shape.channels(), mode.gap);
    DeviceMatrix log_sum_exp(device, Dtype::f32, 1, shape.rows() * shape.heads);
    const DeviceMatrix row_dots(device, Dtype::f32, 1, shape.rows() * shape.heads);
    attention_forward(device.stream(), shape, {}, out.view(), log_sum_exp.f32(), qkv.views());
    attention_backward(device.stream(), shape, {}, gradients.views(), row_dots.f32(), dout.view(),
                       qkv.views(), out.view(), log_sum_exp.f32());
    const HostQkv of = gradients.get();
    const std::vector<std::vector<float>> results = {out.get(), log_sum_exp.get(), of.q, of.k,
                                                     of.v};
    if (time == 0) first = results;
    EXPECT_TRUE(results == first);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Attention, ::testing::ValuesIn(kModes), [](const auto& info) {
  const Mode& mode = info.param;
  return fmt::format("{}_in_{}_gap{}", name_of(mode.dtype), name_of(mode.arithmetic), mode.gap);
});

}  // namespace
}  // namespace strata::ops

// Attention over a key/value cache: a sequence that comes in pieces gives what it gives whole, in
// double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "tests/kernels/ops/attention_testing.h"
#include "tests/kernels/ops/reference.h"

namespace strata::ops {
namespace {

constexpr CpuOpsLimits kLimits = {.weight_rows_max = 64,
                                  .weight_cols_max = 64,
                                  .rows_max = 400,
                                  .tokens_max = 400,
                                  .head_dim = 64,
                                  .heads_per_kv_head = 6};

struct CacheCase {
  AttentionCase of;
  std::int64_t cache_rows;
  std::vector<std::int64_t> pieces;  // tokens of each
};

// Token by token, in pieces of several query tiles and across key tiles; a cache that is full at
// the end, and one of no round size.
std::vector<CacheCase> cases() {
  const std::vector<std::int64_t> one_by_one(70, 1);
  return {
      {{{1, 1, 1, 1, 1}}, 1, {1}},
      {{{1, 70, 2, 1, 8}}, 70, one_by_one},
      {{{1, 70, 4, 2, 16}, 7}, 77, one_by_one},
      {{{1, 300, 6, 1, 24}}, 320, {150, 1, 1, 148}},
      {{{1, 300, 4, 4, 64}, 0, Documents::one, 0.05f}, 300, {255, 1, 1, 43}},
      {{{1, 390, 4, 2, 8}, 130}, 400, {300, 1, 60, 29}},
      {{{1, 130, 2, 2, 32}}, 130, {130}},
  };
}

// Rows [first, first + rows) of the columns of one head of (T, heads·D).
std::vector<float> head_of(const std::vector<float>& all, const AttentionShape& shape,
                           std::int64_t heads, std::int64_t head) {
  std::vector<float> rows;
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    const auto row = all.begin() + (t * heads + head) * shape.head_dim;
    rows.insert(rows.end(), row, row + shape.head_dim);
  }
  return rows;
}

std::vector<float> rows_of(const std::vector<float>& all, std::int64_t cols, std::int64_t first,
                           std::int64_t rows) {
  return {all.begin() + first * cols, all.begin() + (first + rows) * cols};
}

struct Outcome {
  std::vector<float> out;  // (T, H·D)
  std::vector<float> k;    // the cache's rows
  std::vector<float> v;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome run(TestDevice& device, const CacheCase& with, Dtype dtype, const HostQkv& qkv) {
  const AttentionShape& whole = with.of.shape;
  const std::vector<float> zeros(as_size(with.cache_rows * whole.kv_channels()));
  const DeviceMatrix k(device, dtype, with.cache_rows, whole.kv_channels(), 3, zeros);
  const DeviceMatrix v(device, dtype, with.cache_rows, whole.kv_channels(), 0, zeros);
  const DeviceOptions options(device, with.of);
  Outcome outcome;
  std::int64_t past = 0;
  for (const std::int64_t tokens : with.pieces) {
    AttentionShape shape = whole;
    shape.tokens = tokens;
    const DeviceQkv piece(device, shape, dtype, 0,
                          {rows_of(qkv.q, shape.channels(), past, tokens),
                           rows_of(qkv.k, shape.kv_channels(), past, tokens),
                           rows_of(qkv.v, shape.kv_channels(), past, tokens)});
    const DeviceMatrix out(device, dtype, tokens, shape.channels(), 5);
    attention_with_cache(device.stream(), shape, options, out.view(), piece.views(),
                         {k.view(), v.view()}, past);
    const std::vector<float> rows = out.get();
    outcome.out.insert(outcome.out.end(), rows.begin(), rows.end());
    past += tokens;
  }
  outcome.k = k.get();
  outcome.v = v.get();
  return outcome;
}

// The bound of attention_test.cc: an exponent is off by at most (D + 2)·2^-24·kQueryScale·D·scale
// and as much again through its normaliser; T + D + 32 roundings of sums, exp and rescalings.
double f32_error(const AttentionCase& of) {
  const auto d = static_cast<double>(of.shape.head_dim);
  const auto t = static_cast<double>(of.shape.tokens);
  const double score_max = kQueryScale * d * of.scale.value_or(1 / std::sqrt(of.shape.head_dim));
  return (2 * (d + 2) * score_max + score_max + std::log(t) + t + d + 32) * kF32Rounding;
}

// One head, `first_visible` of every token.
reference::Head reference_head(const AttentionCase& of, const HostQkv& qkv, std::int64_t head,
                               std::vector<std::size_t> first_visible) {
  const AttentionShape& shape = of.shape;
  const std::int64_t kv_head = head / shape.heads_per_kv_head();
  return {as_size(shape.tokens),
          as_size(shape.head_dim),
          head_of(qkv.q, shape, shape.heads, head),
          head_of(qkv.k, shape, shape.kv_heads, kv_head),
          head_of(qkv.v, shape, shape.kv_heads, kv_head),
          of.scale.value_or(static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)))),
          std::move(first_visible)};
}

// `out` is of the last tokens. With bf16, probabilities may be rounded, and so is the result.
void expect_close(const std::vector<float>& out, const reference::Sums& expected,
                  const AttentionCase& of, Dtype dtype) {
  const double rounding = rounding_of(dtype);
  const std::size_t first = expected.value.size() - out.size();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double exact = expected.value[first + i];
    const double terms = (rounding + f32_error(of)) * expected.magnitude[first + i];
    ASSERT_NEAR(out[i], exact, terms + rounding * (std::abs(exact) + terms))
        << "entry " << i << ", T " << of.shape.tokens << ", D " << of.shape.head_dim;
  }
}

class AttentionCache : public ::testing::TestWithParam<Dtype> {};

TEST_P(AttentionCache, PiecesGiveWhatTheWholeSequenceGives) {
  const Dtype dtype = GetParam();
  TestDevice device(kLimits, dtype);
  for (const CacheCase& with : cases()) {
    const AttentionShape& shape = with.of.shape;
    const HostQkv qkv = random_qkv(shape, dtype);
    const Outcome actual = run(device, with, dtype, qkv);
    std::vector<std::size_t> first_visible;
    for (std::int64_t t = 0; t < shape.tokens; ++t) {
      const std::int64_t first = with.of.window == 0 ? 0 : t - with.of.window + 1;
      first_visible.push_back(as_size(std::max<std::int64_t>(0, first)));
    }
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const auto expected =
          reference::attention_forward(reference_head(with.of, qkv, head, first_visible)).out;
      expect_close(head_of(actual.out, shape, shape.heads, head), expected, with.of, dtype);
    }
  }
}

TEST_P(AttentionCache, ATokenAfterThousandsSeesThemAll) {
  const Dtype dtype = GetParam();
  TestDevice device(kLimits, dtype);
  const AttentionCase of = {{1, 4500, 2, 1, 20}};
  const AttentionShape& whole = of.shape;
  const std::int64_t last = whole.tokens - 1;
  const HostQkv qkv = random_qkv(whole, dtype);
  const DeviceMatrix k(device, dtype, whole.tokens, whole.kv_channels(), 0, qkv.k);
  const DeviceMatrix v(device, dtype, whole.tokens, whole.kv_channels(), 0, qkv.v);
  AttentionShape shape = whole;
  shape.tokens = 1;
  const DeviceQkv token(
      device, shape, dtype, 0,
      {rows_of(qkv.q, shape.channels(), last, 1), rows_of(qkv.k, shape.kv_channels(), last, 1),
       rows_of(qkv.v, shape.kv_channels(), last, 1)});
  const DeviceMatrix out(device, dtype, 1, shape.channels());
  attention_with_cache(device.stream(), shape, {}, out.view(), token.views(), {k.view(), v.view()},
                       last);
  const auto actual = out.get();
  std::vector<std::size_t> first_visible(as_size(whole.tokens));
  for (std::size_t t = 0; t + 1 < first_visible.size(); ++t) first_visible[t] = t;
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    const auto expected =
        reference::attention_forward(reference_head(of, qkv, head, first_visible)).out;
    expect_close(head_of(actual, shape, shape.heads, head), expected, of, dtype);
  }
}

TEST_P(AttentionCache, HoldsTheKeysAndValuesAndNothingElse) {
  const Dtype dtype = GetParam();
  TestDevice device(kLimits, dtype);
  const CacheCase with = {{{1, 30, 4, 2, 16}}, 40, {20, 1, 9}};
  HostQkv qkv = random_qkv(with.of.shape, dtype);
  const Outcome actual = run(device, with, dtype, qkv);
  const auto rest = as_size(10 * with.of.shape.kv_channels());
  qkv.k.insert(qkv.k.end(), rest, 0.0f);
  qkv.v.insert(qkv.v.end(), rest, 0.0f);
  EXPECT_EQ(actual.k, qkv.k);
  EXPECT_EQ(actual.v, qkv.v);
}

TEST_P(AttentionCache, BitsDoNotDependOnTheNumberOfWorkers) {
  const Dtype dtype = GetParam();
  const CacheCase with = {{{1, 390, 4, 2, 24}, 200}, 400, {380, 1, 1, 8}};
  const HostQkv qkv = random_qkv(with.of.shape, dtype);
  TestDevice one(kLimits, dtype, 1);
  TestDevice three(kLimits, dtype, 3);
  EXPECT_TRUE(run(one, with, dtype, qkv) == run(three, with, dtype, qkv));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, AttentionCache, ::testing::Values(Dtype::f32, Dtype::bf16),
                         [](const auto& info) { return name_of(info.param); });

// The device is the dying process's own, whose threads do not live on in it.
void run_on_a_new_device(const CacheCase& with) {
  TestDevice device(kLimits, Dtype::f32);
  run(device, with, Dtype::f32, random_qkv(with.of.shape, Dtype::f32));
}

TEST(AttentionCacheDeathTest, RefusesWhatDoesNotFit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const CacheCase beyond = {{{1, 8, 1, 1, 4}}, 7, {7, 1}};
  EXPECT_DEATH(run_on_a_new_device(beyond), "1 tokens after 7 in a cache of 7");
  const CacheCase documents = {{{1, 8, 1, 1, 4}, 0, Documents::random}, 8, {8}};
  EXPECT_DEATH(run_on_a_new_device(documents), "one sequence of one document");
}

}  // namespace
}  // namespace strata::ops

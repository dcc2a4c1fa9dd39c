// Attention's bits: the same for any number of workers and room for sums, in every instruction set,
// and untouched by what is masked.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "kernels/ops/cpu/attention_kernels.h"
#include "tests/kernels/ops/attention_testing.h"

namespace strata::ops {
namespace {

constexpr CpuOpsLimits kLimits = {.weight_rows_max = 256,
                                  .weight_cols_max = 256,
                                  .rows_max = 1200,
                                  .tokens_max = 400,
                                  .head_dim = 32,
                                  .heads_per_kv_head = 6};

// With 8 KV heads a single worker takes whole heads; several workers share diagonals, of some KV
// heads after the others.
constexpr AttentionCase kCases[] = {
    {{2, 400, 8, 4, 32}},
    {{1, 400, 6, 1, 32}},
    {{2, 390, 4, 4, 24}, 150, Documents::random},
};

struct Results {
  std::vector<float> out;
  std::vector<float> log_sum_exp;
  HostQkv gradients;
  friend bool operator==(const Results& a, const Results& b) {
    return a.out == b.out && a.log_sum_exp == b.log_sum_exp && a.gradients.q == b.gradients.q &&
           a.gradients.k == b.gradients.k && a.gradients.v == b.gradients.v;
  }
};

Results run(TestDevice& device, const AttentionCase& of, Dtype dtype, const HostQkv& values) {
  const AttentionShape& shape = of.shape;
  const DeviceQkv qkv(device, shape, dtype, 0, values);
  const DeviceQkv gradients(device, shape, dtype, 0);
  const DeviceOptions options(device, of);
  const DeviceMatrix dout(device, dtype, shape.rows(), shape.channels(), 0,
                          random_values(dtype, shape.rows() * shape.channels(), 4));
  DeviceMatrix out(device, dtype, shape.rows(), shape.channels());
  DeviceMatrix log_sum_exp(device, Dtype::f32, 1, shape.rows() * shape.heads);
  const DeviceMatrix row_dots(device, Dtype::f32, 1, shape.rows() * shape.heads);
  attention_forward(device.stream(), shape, options, out.view(), log_sum_exp.f32(), qkv.views());
  attention_backward(device.stream(), shape, options, gradients.views(), row_dots.f32(),
                     dout.view(), qkv.views(), out.view(), log_sum_exp.f32());
  return {out.get(), log_sum_exp.get(), gradients.get()};
}

struct Mode {
  Dtype dtype;
  Dtype arithmetic;
};
constexpr Mode kModes[] = {
    {Dtype::f32, Dtype::f32}, {Dtype::bf16, Dtype::bf16}, {Dtype::bf16, Dtype::f32}};

class AttentionBits : public ::testing::TestWithParam<Mode> {};

TEST_P(AttentionBits, DependNeitherOnThreadsNorOnRoomForSums) {
  const auto [dtype, arithmetic] = GetParam();
  CpuOpsLimits roomy = kLimits;
  roomy.tokens_max = 4 * kLimits.tokens_max;
  for (const AttentionCase& of : kCases) {
    const HostQkv values = random_qkv(of.shape, dtype);
    TestDevice one(kLimits, arithmetic, 1);
    const Results first = run(one, of, dtype, values);
    for (const int threads : {2, 3, 4}) {
      TestDevice device(kLimits, arithmetic, threads);
      EXPECT_TRUE(run(device, of, dtype, values) == first) << threads << " threads";
    }
    TestDevice device(roomy, arithmetic, 1);
    EXPECT_TRUE(run(device, of, dtype, values) == first);
  }
}

// Another first document changes nothing in the later ones, in either direction.
TEST_P(AttentionBits, DocumentsDoNotSeeEachOther) {
  const auto [dtype, arithmetic] = GetParam();
  const AttentionCase of = {{1, 390, 2, 1, 16}, 0, Documents::random};
  const AttentionShape& shape = of.shape;
  const std::vector<std::int32_t> starts = random_document_starts(shape);
  const std::int64_t second =
      std::find_if(starts.begin(), starts.end(), [](auto start) { return start > 0; }) -
      starts.begin();
  ASSERT_LT(second, shape.tokens);
  const HostQkv values = random_qkv(shape, dtype);
  HostQkv changed = values;
  for (std::vector<float>* part : {&changed.q, &changed.k, &changed.v}) {
    const std::int64_t cols = static_cast<std::int64_t>(part->size()) / shape.rows();
    for (std::int64_t i = 0; i < second * cols; ++i) (*part)[as_size(i)] += 1;
  }
  TestDevice device(kLimits, arithmetic);
  const Results results = run(device, of, dtype, values);
  const Results others = run(device, of, dtype, changed);
  const auto expect_same = [&](const std::vector<float>& a, const std::vector<float>& b) {
    const std::int64_t cols = static_cast<std::int64_t>(a.size()) / shape.rows();
    EXPECT_TRUE(std::equal(a.begin() + second * cols, a.end(), b.begin() + second * cols));
    EXPECT_FALSE(std::equal(a.begin(), a.begin() + second * cols, b.begin()));
  };
  expect_same(results.out, others.out);
  expect_same(results.gradients.q, others.gradients.q);
  expect_same(results.gradients.k, others.gradients.k);
  expect_same(results.gradients.v, others.gradients.v);
}

TEST_P(AttentionBits, AWindowLongerThanTheSequenceIsNone) {
  const auto [dtype, arithmetic] = GetParam();
  TestDevice device(kLimits, arithmetic);
  const AttentionShape shape = {1, 300, 4, 2, 16};
  const HostQkv values = random_qkv(shape, dtype);
  EXPECT_TRUE(run(device, {shape, 300}, dtype, values) == run(device, {shape}, dtype, values));
}

INSTANTIATE_TEST_SUITE_P(Modes, AttentionBits, ::testing::ValuesIn(kModes), [](const auto& info) {
  return fmt::format("{}_in_{}", name_of(info.param.dtype), name_of(info.param.arithmetic));
});

// On a device of its own: a death test's process has no other threads.
void forward_zeros(const AttentionShape& shape, AttentionOptions options,
                   const std::vector<std::int32_t>& document_starts = {}) {
  TestDevice device(kLimits, Dtype::f32, 1);
  const DeviceQkv qkv(device, shape, Dtype::f32, 0);
  const DeviceMatrix out(device, Dtype::f32, shape.rows(), shape.channels());
  const DeviceMatrix log_sum_exp(device, Dtype::f32, 1, shape.rows() * shape.heads);
  const DeviceBuffer starts = device.upload(document_starts);
  if (!document_starts.empty()) {
    options.document_starts = reinterpret_cast<const std::int32_t*>(starts.data());
  }
  attention_forward(device.stream(), shape, options, out.view(), log_sum_exp.f32(), qkv.views());
  device.stream().synchronize();
}

TEST(AttentionDeathTest, RefusesHeadsAndDocumentsThatDoNotFit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const AttentionShape shape = {1, 4, 2, 2, 8};
  EXPECT_DEATH(forward_zeros({1, 4, 3, 2, 8}, {}), "3 heads do not share 2 KV heads evenly");
  EXPECT_DEATH(forward_zeros(shape, {.window = -1}), "a window of -1");
  EXPECT_DEATH(forward_zeros(shape, {.scale = 0.0f}), "scaled by 0");
  EXPECT_DEATH(forward_zeros(shape, {}, {0, 0, 3, 0}), "token 2 of a document that starts at 3");
  EXPECT_DEATH(forward_zeros(shape, {}, {0, 1, 0, 0}), "token 2 .* starts at 0, after one of 1");
}

// The loops between the matmuls, on a tile with rows that see all, some and none of it.
TEST(AttentionRows, SameBitsInEveryInstructionSet) {
  constexpr std::int64_t kRows = 40;
  constexpr std::int64_t kCols = 77;
  constexpr std::int64_t kStride = 96;
  constexpr std::int64_t kHeadDim = 24;
  std::vector<std::int32_t> starts(kRows);
  for (std::int64_t row = 0; row < kRows; ++row) {
    starts[as_size(row)] = static_cast<std::int32_t>(row < 20 ? 1000 : 1000 + 4 * row);
  }
  for (const cpu::ScoreFormat format :
       {cpu::ScoreFormat::f32, cpu::ScoreFormat::bf16, cpu::ScoreFormat::bf16_in_f32}) {
    std::vector<std::vector<float>> first;
    for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
      if (!isa_supported(isa)) continue;
      auto scores = random_values(Dtype::f32, kRows * kStride, 1, 0, 9);
      auto again = scores;
      auto dprobabilities = random_values(Dtype::f32, kRows * kStride, 2);
      auto out = random_values(Dtype::f32, kRows * kHeadDim, 3);
      const auto row_dots = random_values(Dtype::f32, kRows, 4);
      std::vector<float> max(kRows, -std::numeric_limits<float>::infinity());
      std::vector<float> sum(kRows);
      cpu::ScoreTile tile = {.scores = scores.data(),
                             .stride = kStride,
                             .rows = kRows,
                             .cols = kCols,
                             .visible = 50,
                             .window = 30,
                             .first_key = 1000,
                             .document_starts = starts.data(),
                             .scale = 0.3f,
                             .format = format};
      const cpu::AttentionKernels& kernels = cpu::attention_kernels(isa);
      kernels.softmax(tile, max.data(), sum.data(), out.data(), kHeadDim);
      tile.scores = again.data();
      const std::vector<float> log_sums(kRows, 3.0f);
      kernels.softmax_backward(tile, dprobabilities.data(), log_sums.data(), row_dots.data());
      const std::vector<std::vector<float>> here = {scores, again, dprobabilities, out, max, sum};
      if (first.empty()) first = here;
      // As bytes: rows of bf16 in memory of f32 may read as NaN.
      for (std::size_t i = 0; i < here.size(); ++i) {
        EXPECT_EQ(std::memcmp(here[i].data(), first[i].data(), here[i].size() * sizeof(float)), 0)
            << name_of(isa) << ", result " << i;
      }
    }
  }
}

}  // namespace
}  // namespace strata::ops

#include "kernels/ops/cuda/attention_choice.h"

#include <gtest/gtest.h>

#include <cstring>

namespace strata::ops::cuda {
namespace {

constexpr AttentionShape kShape = {
    .batch = 4, .tokens = 1024, .heads = 32, .kv_heads = 8, .head_dim = 128};

Matrix rows_at(std::uintptr_t address, std::int64_t stride, Dtype dtype = Dtype::bf16) {
  return {reinterpret_cast<void*>(address), dtype, kShape.rows(), kShape.channels(), stride};
}

testing::AssertionResult is_ours(const char* because, const char* word) {
  if (because == nullptr) return testing::AssertionFailure() << "cuDNN's";
  if (std::strstr(because, word) == nullptr) return testing::AssertionFailure() << because;
  return testing::AssertionSuccess();
}

const char* because(AttentionShape shape, const AttentionOptions& options = {},
                    Matrix operand = rows_at(4096, 6144)) {
  return own_attention_because(shape, options, {&operand, 1});
}

TEST(AttentionChoice, GivesAReasonWhereCudnnCannot) {
  EXPECT_EQ(because(kShape), nullptr);
  EXPECT_EQ(because(kShape, {.scale = 0.5f, .window = 100}), nullptr);
  EXPECT_TRUE(is_ours(because(kShape, {}, rows_at(4096, 6144, Dtype::f32)), "bf16"));
  EXPECT_TRUE(is_ours(because(kShape, {}, rows_at(4104, 6144)), "16 bytes"));
  EXPECT_TRUE(is_ours(because(kShape, {}, rows_at(4096, 6148)), "16 bytes"));
  const std::int32_t starts = 0;
  EXPECT_TRUE(is_ours(because(kShape, {.document_starts = &starts}), "documents"));
  AttentionShape shape = kShape;
  shape.head_dim = 100;
  EXPECT_TRUE(is_ours(because(shape), "multiple of 8"));
  shape.head_dim = 256;
  EXPECT_TRUE(is_ours(because(shape), "above 128"));
  shape = kShape;
  shape.tokens = 1;
  EXPECT_TRUE(is_ours(because(shape), "one token"));
}

// As cuDNN 9.19 stated them for sm_90 (for sm_80, 86, 89 and 120 too), in bytes.
TEST(AttentionChoice, KnowsTheWorkspaceOfTheBackward) {
  EXPECT_EQ(backward_workspace_bytes({4, 1024, 12, 12, 64}), 100'859'904);
  EXPECT_EQ(backward_workspace_bytes({1, 1024, 32, 8, 128}), 84'017'152);
  EXPECT_EQ(backward_workspace_bytes({1, 1000, 32, 8, 128}), 83'620'864);
  EXPECT_EQ(backward_workspace_bytes({1, 37, 4, 2, 16}), 75'600);
  EXPECT_EQ(backward_workspace_bytes({1, 8192, 4, 1, 128}), 553'779'200);
}

TEST(AttentionChoice, DividesTheBackwardIntoSlicesThatFit) {
  const std::int64_t one = backward_workspace_bytes({1, 1024, 32, 8, 128});
  const auto slice = [](std::int64_t bytes) { return backward_slice(kShape, bytes); };
  EXPECT_EQ(slice(4 * one), kShape);
  EXPECT_EQ(slice(4 * one - 1), (AttentionShape{2, 1024, 32, 8, 128})) << "4 are not 3 and 1";
  EXPECT_EQ(slice(one), (AttentionShape{1, 1024, 32, 8, 128}));
  EXPECT_EQ(slice(one - 1), (AttentionShape{1, 1024, 16, 4, 128}));
  EXPECT_EQ(slice(one / 8), (AttentionShape{1, 1024, 4, 1, 128}));
  EXPECT_EQ(slice(one / 8 - 1).batch, 0);
  EXPECT_EQ(slice(0).batch, 0);
  EXPECT_EQ(backward_slice({3, 1024, 32, 8, 128}, 2 * one).batch, 1);
}

TEST(AttentionChoice, ABackendWithoutCudnnReservesNothingAndSaysSo) {
  EXPECT_EQ(attention_library(), "own attention");
  EXPECT_EQ(attention_scratch_bytes({.rows_max = 4096,
                                     .tokens_max = 1024,
                                     .head_dim = 128,
                                     .heads_per_kv_head = 4,
                                     .trained_heads = 32}),
            0);
}

}  // namespace
}  // namespace strata::ops::cuda

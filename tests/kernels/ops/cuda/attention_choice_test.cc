#include "kernels/ops/cuda/attention_choice.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/base/bytes.h"

namespace strata::ops::cuda {
namespace {

// Packed.
PlannedAttention planned_of(const AttentionShape& shape) {
  return {.shape = shape, .qk_stride = shape.packed_channels(), .has_backward = true};
}

constexpr AttentionShape kShape = {
    .batch = 4, .tokens = 1024, .heads = 32, .kv_heads = 8, .head_dim = 128};

testing::AssertionResult is_ours(const PlannedAttention& planned, const char* word) {
  const char* const because = own_attention_because(planned);
  if (because == nullptr) return testing::AssertionFailure() << "cuDNN's";
  if (std::strstr(because, word) == nullptr) return testing::AssertionFailure() << because;
  return testing::AssertionSuccess();
}

TEST(AttentionChoice, GivesAReasonWhereCudnnMakesNoPlans) {
  EXPECT_EQ(own_attention_because(planned_of(kShape)), nullptr);
  EXPECT_TRUE(is_ours({}, "nothing"));
  AttentionShape shape = kShape;
  shape.head_dim = 100;
  EXPECT_TRUE(is_ours(planned_of(shape), "vectors"));
  shape.head_dim = 256;
  EXPECT_TRUE(is_ours(planned_of(shape), "above 128"));
  shape = kShape;
  shape.tokens = 1;
  EXPECT_TRUE(is_ours(planned_of(shape), "one token"));
  shape.tokens = 1001;
  EXPECT_TRUE(is_ours(planned_of(shape), "4 rows"));
}

const std::int64_t kPacked = kShape.packed_channels();

// A call of `shape`, with operands that are nowhere.
struct Call {
  AttentionShape shape = kShape;
  AttentionOptions options;
  Matrix out = rows(4096, kShape.channels());
  Qkv qkv = {rows(4096, kPacked), rows(8192, kPacked), rows(16384, kPacked)};

  static Matrix rows(std::uintptr_t address, std::int64_t stride, Dtype dtype = Dtype::bf16) {
    return {reinterpret_cast<void*>(address), dtype, kShape.rows(), 1, stride};
  }
  bool is_planned() const { return cuda::is_planned(planned_of(kShape), shape, options, out, qkv); }
};

template <typename Change>
bool is_planned_with(const Change& change) {
  Call call;
  change(call);
  return call.is_planned();
}

TEST(AttentionChoice, PlansAreForWholeSequencesAlone) {
  EXPECT_TRUE(Call().is_planned());
  EXPECT_TRUE(is_planned_with([](Call& call) { call.shape.batch = 1; })) << "the last one";
  EXPECT_FALSE(is_planned_with([](Call& call) { call.shape.tokens = 992; })) << "padded";
  EXPECT_FALSE(is_planned_with([](Call& call) { call.shape.kv_heads = 4; }));
  EXPECT_FALSE(is_planned_with([](Call& call) { call.options.window = 100; }));
  EXPECT_FALSE(is_planned_with([](Call& call) { call.options.scale = 0.5f; }));
  const std::int32_t starts = 0;
  EXPECT_FALSE(is_planned_with([&](Call& call) { call.options.document_starts = &starts; }));
  EXPECT_FALSE(is_planned_with([](Call& call) { call.out.dtype = Dtype::f32; }));
  EXPECT_FALSE(is_planned_with([](Call& call) { call.out.stride += 8; }));
  EXPECT_FALSE(is_planned_with([](Call& call) { call.qkv.v = Call::rows(4104, kPacked); }));
}

TEST(AttentionChoice, QueriesAndKeysMayHaveRowsOfTheirOwn) {
  PlannedAttention planned = planned_of(kShape);
  planned.qk_stride = kShape.channels() + kShape.kv_channels();
  Call call;
  EXPECT_FALSE(is_planned(planned, call.shape, call.options, call.out, call.qkv));
  call.qkv.q.stride = call.qkv.k.stride = planned.qk_stride;
  EXPECT_TRUE(is_planned(planned, call.shape, call.options, call.out, call.qkv));
  const Matrix dout = Call::rows(4096, kShape.channels());
  EXPECT_TRUE(is_planned(planned, dout, Call().qkv)) << "gradients are packed";
  EXPECT_FALSE(is_planned(planned, dout, call.qkv));
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
  const auto slice = [](std::int64_t bytes) {
    PlannedAttention planned = planned_of(kShape);
    planned.workspace_bytes_max = bytes;
    return backward_slice(planned);
  };
  EXPECT_EQ(slice(9 * one), kShape);
  EXPECT_EQ(slice(4 * one), kShape);
  EXPECT_EQ(slice(4 * one - 1), (AttentionShape{3, 1024, 32, 8, 128}));
  EXPECT_EQ(slice(one), (AttentionShape{1, 1024, 32, 8, 128}));
  EXPECT_EQ(slice(one - 1), (AttentionShape{1, 1024, 16, 4, 128}));
  EXPECT_EQ(slice(one / 8), (AttentionShape{1, 1024, 4, 1, 128}));
  EXPECT_EQ(slice(one / 8 - 1).batch, 0);
  EXPECT_EQ(slice(0).batch, 0);
}

TEST(AttentionChoice, ABackendWithoutCudnnReservesNothingAndSaysSo) {
  EXPECT_EQ(attention_library(), "own attention");
  EXPECT_EQ(attention_scratch_bytes(planned_of(kShape)), 0);
}

}  // namespace
}  // namespace strata::ops::cuda

// Properties of the block that hold whatever its numbers; family_golden_test.cc checks the numbers.
#include "models/decoder_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/presets.h"
#include "tests/support/compare.h"
#include "tests/support/test_device.h"

namespace strata::models {
namespace {

const ModelConfig kConfig = parse_model("gpt2:layers=2,hidden=36,heads=3,context=24");
constexpr Batch kLimits{2, 11};

using strata::testing::random_values;
using strata::testing::TestDevice;

std::vector<float> random_weights(const UnitSpec& unit) {
  std::vector<float> values = random_values(Dtype::f32, unit.elements, 1, 0, 0.35f);
  const BlockTensors tensors = block_unit(kConfig, 0).tensors;
  for (const TensorRun norm : {tensors.norm1_weight, tensors.norm2_weight}) {
    std::fill_n(values.begin() + unit.tensors[norm.first].offset_elements, kConfig.hidden, 1.0f);
  }
  return values;
}

class DecoderBlockTest : public ::testing::TestWithParam<Dtype> {
 protected:
  struct Outcome {
    std::vector<float> out;
    std::vector<float> dx;
    std::vector<float> gradients;
    friend bool operator==(const Outcome&, const Outcome&) = default;
  };
  enum class Dx { separate, in_place_of_x };

  // Forward and backward of `batch` by a block made for `limits`; fails the test when either writes
  // beyond what it asked for.
  Outcome run(Batch batch, Batch limits, const std::vector<float>& x, Dx where = Dx::separate,
              ops::Into into = ops::Into::overwrite, float gradients_before = NAN) {
    const DecoderBlock block(kConfig, dtype_, limits);
    const std::int64_t elements = batch.rows() * kConfig.hidden;
    const DeviceBuffer weights = device_.upload(random_weights(unit_), dtype_);
    const DeviceBuffer input = device_.upload(x, dtype_);
    const DeviceBuffer dout = device_.upload(random_values(dtype_, elements, 3), dtype_);
    const DeviceBuffer out = device_.allocate(elements * bytes_of(dtype_));
    const DeviceBuffer other_dx = device_.allocate(elements * bytes_of(dtype_));
    const std::vector<float> before(static_cast<std::size_t>(unit_.elements), gradients_before);
    const DeviceBuffer gradients = device_.upload(before);
    const DeviceBuffer saved = device_.allocate_guarded(block.saved_bytes());
    const DeviceBuffer workspace = device_.allocate_guarded(block.workspace_bytes());
    std::byte* const dx = where == Dx::separate ? other_dx.data() : input.data();

    block.forward(device_.stream(), batch, weights.data(), input.data(), saved.data(), out.data());
    block.backward(device_.stream(), batch, weights.data(),
                   reinterpret_cast<float*>(gradients.data()), into, input.data(), saved.data(),
                   dout.data(), dx, workspace.data());
    device_.expect_guard(saved, block.saved_bytes());
    device_.expect_guard(workspace, block.workspace_bytes());
    return {device_.read(out.data(), elements, dtype_), device_.read(dx, elements, dtype_),
            device_.read<float>(gradients.data(), unit_.elements)};
  }

  std::vector<float> input(Batch batch) {
    return random_values(dtype_, batch.rows() * kConfig.hidden, 2);
  }

  Dtype dtype_ = GetParam();
  UnitSpec unit_ = block_unit(kConfig, 0).spec;
  TestDevice device_{{.weight_rows_max = 4 * kConfig.hidden,
                      .weight_cols_max = 4 * kConfig.hidden,
                      .rows_max = kLimits.rows(),
                      .tokens_max = kLimits.tokens,
                      .head_dim = kConfig.head_dim},
                     dtype_};
};

TEST_P(DecoderBlockTest, InputGradientMayTakeTheInputsPlace) {
  const std::vector<float> x = input(kLimits);
  EXPECT_EQ(run(kLimits, kLimits, x), run(kLimits, kLimits, x, Dx::in_place_of_x));
}

TEST_P(DecoderBlockTest, ASmallerBatchDoesNotDependOnTheLimits) {
  for (const Batch batch : {Batch{1, 11}, Batch{2, 5}, Batch{1, 1}}) {
    const std::vector<float> x = input(batch);
    EXPECT_EQ(run(batch, kLimits, x), run(batch, batch, x));
  }
}

// Sums of one call and of the call before may be taken in any order within an entry: a few f32
// roundings (2^-24) of numbers not larger than the largest entry plus what was there.
TEST_P(DecoderBlockTest, WeightGradientsAddToWhatIsThere) {
  constexpr float kBefore = 0.5f;
  const std::vector<float> x = input(kLimits);
  const std::vector<float> overwritten = run(kLimits, kLimits, x).gradients;
  const std::vector<float> added =
      run(kLimits, kLimits, x, Dx::separate, ops::Into::add, kBefore).gradients;
  const double largest = strata::testing::largest(overwritten);
  for (const TensorSpec& tensor : unit_.tensors) {
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      const std::int64_t at = tensor.offset_elements + i;
      ASSERT_NEAR(added[at], overwritten[at] + kBefore, 16 * 0x1p-24 * (largest + kBefore))
          << tensor.name << " element " << i;
    }
  }
}

TEST_P(DecoderBlockTest, ATokenSeesOnlyItselfAndThePast) {
  constexpr std::int64_t kChanged = 6;  // token of sequence 0
  const std::vector<float> x = input(kLimits);
  std::vector<float> other = x;
  for (std::int64_t c = 0; c < kConfig.hidden; ++c) {
    other[kChanged * kConfig.hidden + c] = -x[kChanged * kConfig.hidden + c];
  }
  const std::vector<float> out = run(kLimits, kLimits, x).out;
  const std::vector<float> other_out = run(kLimits, kLimits, other).out;
  for (std::int64_t row = 0; row < kLimits.rows(); ++row) {
    const auto begin = out.begin() + row * kConfig.hidden;
    const bool same =
        std::equal(begin, begin + kConfig.hidden, other_out.begin() + row * kConfig.hidden);
    const bool sees = row >= kChanged && row < kLimits.tokens;
    EXPECT_EQ(same, !sees) << "row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, DecoderBlockTest, ::testing::Values(Dtype::f32, Dtype::bf16),
                         [](const auto& info) { return name_of(info.param); });

TEST(DecoderBlockCost, ListsFourLinearLayersThreeWays) {
  const DecoderBlock block(parse_model("gpt2-124m"), Dtype::bf16, {2, 1024});
  const std::vector<ops::MatmulShape> shapes = block.matmul_shapes();
  double weights = 0;
  for (const ops::MatmulShape& shape : shapes) {
    EXPECT_EQ(shape.rows, 2048);
    if (shape.kind == ops::MatmulKind::forward) {
      weights += static_cast<double>(shape.n) * static_cast<double>(shape.k);
    }
  }
  EXPECT_EQ(shapes.size(), 12u);
  EXPECT_EQ(weights, 7'077'888);  // 12 × 768², the matrices of a block
}

// 2 × 1024 tokens through 7,077,888 weights; q·kᵀ and p·v of 524,800 causal pairs × 768 channels in
// each of 2 sequences; two operations each.
TEST(DecoderBlockCost, CountsOperationsOfForward) {
  const DecoderBlock block(parse_model("gpt2-124m"), Dtype::bf16, {2, 1024});
  EXPECT_DOUBLE_EQ(block.forward_flops({2, 1024}),
                   2.0 * 2048 * 7'077'888 + 2.0 * 2 * 2 * 524'800 * 768);
}

TEST(DecoderBlockDeathTest, RefusesABatchBeyondItsLimits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const DecoderBlock block(kConfig, Dtype::f32, kLimits);
  TestDevice device({.weight_rows_max = 144,
                     .weight_cols_max = 144,
                     .rows_max = 64,
                     .tokens_max = 24,
                     .head_dim = 12},
                    Dtype::f32);
  EXPECT_DEATH(block.forward(device.stream(), {2, 12}, nullptr, nullptr, nullptr, nullptr),
               "a batch of 2 x 12 tokens, made for 2 x 11");
}

}  // namespace
}  // namespace strata::models

// Properties of the block that hold whatever its numbers; family_golden_test.cc checks the numbers.
#include "models/decoder_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "models/presets.h"
#include "tests/support/compare.h"
#include "tests/support/test_device.h"

namespace strata::models {
namespace {

constexpr Batch kLimits{2, 11};
constexpr std::int64_t kHidden = 36;
constexpr std::int64_t kContext = 24;

using strata::testing::random_values;
using strata::testing::TestDevice;

ModelConfig gpt2() { return parse_model("gpt2:layers=2,hidden=36,heads=3,context=24"); }

// Grouped queries in heads that are wider than C / H.
ModelConfig rotary_config(Family family) {
  ModelConfig config;
  apply_family(config, family);
  config.layers = 2;
  config.hidden = kHidden;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.intermediate = 52;
  config.context = kContext;
  config.vocabulary = kByteVocabulary;
  config.window = family == Family::mistral ? 4 : 0;
  config.rotary = {.head_dim = config.head_dim, .theta = 100};
  return config;
}

std::vector<ModelConfig> configs() {
  return {gpt2(), rotary_config(Family::llama), rotary_config(Family::mistral),
          rotary_config(Family::qwen2), rotary_config(Family::qwen3)};
}

std::vector<float> random_weights(const ModelConfig& config) {
  const BlockUnit unit = block_unit(config, 0);
  std::vector<float> values = random_values(Dtype::f32, unit.spec.elements, 1, 0, 0.35f);
  for (const TensorSpec& tensor : unit.spec.tensors) {
    if (tensor.initial != Initial::ones) continue;
    std::fill_n(values.begin() + tensor.offset_elements, tensor.elements(), 1.0f);
  }
  return values;
}

// Of a batch whose every sequence is one document, or several that begin at `starts`.
struct Documents {
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> starts;

  explicit Documents(Batch batch, const std::vector<std::int32_t>& begins = {0}) {
    for (std::int64_t row = 0; row < batch.rows(); ++row) {
      const auto place = static_cast<std::int32_t>(row % batch.tokens);
      starts.push_back(*std::prev(std::ranges::upper_bound(begins, place)));
      positions.push_back(place - starts.back());
    }
  }
};

class DecoderBlockTest : public ::testing::TestWithParam<std::tuple<ModelConfig, Dtype>> {
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
    const DecoderBlock block(config_, dtype_, limits, rotary_tables());
    const std::int64_t elements = batch.rows() * kHidden;
    const DeviceBuffer positions = device_.upload(Documents(batch).positions);
    if (batch.positions == nullptr) batch.positions = as_i32(positions);
    const DeviceBuffer weights = device_.upload(random_weights(config_), dtype_);
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

  // Of `out`, the rows that change when row `changed` of x does.
  std::vector<std::int64_t> rows_that_see(std::int64_t changed, Batch batch) {
    const std::vector<float> x = input(kLimits);
    std::vector<float> other = x;
    for (std::int64_t c = 0; c < kHidden; ++c) other[changed * kHidden + c] *= -1;
    const std::vector<float> out = run(batch, kLimits, x).out;
    const std::vector<float> other_out = run(batch, kLimits, other).out;
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < batch.rows(); ++row) {
      const auto begin = out.begin() + row * kHidden;
      if (!std::equal(begin, begin + kHidden, other_out.begin() + row * kHidden)) {
        rows.push_back(row);
      }
    }
    return rows;
  }
  // Of those, the ones that may: from it to the last of its window, before `end`.
  std::vector<std::int64_t> rows_to(std::int64_t changed, std::int64_t end) const {
    if (config_.window > 0) end = std::min(end, changed + config_.window);
    std::vector<std::int64_t> rows(static_cast<std::size_t>(end - changed));
    std::iota(rows.begin(), rows.end(), changed);
    return rows;
  }

  std::vector<float> input(Batch batch) { return random_values(dtype_, batch.rows() * kHidden, 2); }
  static const std::int32_t* as_i32(const DeviceBuffer& buffer) {
    return reinterpret_cast<const std::int32_t*>(buffer.data());
  }

  ModelConfig config_ = std::get<ModelConfig>(GetParam());
  Dtype dtype_ = std::get<Dtype>(GetParam());
  UnitSpec unit_ = block_unit(config_, 0).spec;
  TestDevice device_{{.weight_rows_max = 4 * kHidden,
                      .weight_cols_max = 4 * kHidden,
                      .rows_max = kLimits.rows(),
                      .tokens_max = kLimits.tokens,
                      .head_dim = config_.head_dim,
                      .heads_per_kv_head = config_.heads / config_.kv_heads},
                     dtype_};

 private:
  ops::RotaryTables rotary_tables() {
    if (!config_.rotary) return {};
    const std::int64_t half = kContext * config_.head_dim / 2;
    std::vector<float> tables(static_cast<std::size_t>(2 * half));
    fill_rotary_tables(*config_.rotary, std::span(tables).first(half),
                       std::span(tables).last(half));
    tables_ = device_.upload(tables);
    const auto* const cos = reinterpret_cast<const float*>(tables_.data());
    return {cos, cos + half, kContext, config_.head_dim};
  }
  DeviceBuffer tables_;
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
  constexpr std::int64_t kChanged = 3;  // token of sequence 0
  EXPECT_EQ(rows_that_see(kChanged, kLimits), rows_to(kChanged, kLimits.tokens));
}

TEST_P(DecoderBlockTest, ATokenSeesOnlyItsDocument) {
  const Documents documents(kLimits, {0, 2, 7});
  const DeviceBuffer positions = device_.upload(documents.positions);
  const DeviceBuffer starts = device_.upload(documents.starts);
  Batch batch = kLimits;
  batch.positions = as_i32(positions);
  batch.document_starts = as_i32(starts);
  EXPECT_EQ(rows_that_see(3, batch), rows_to(3, 7));
  EXPECT_EQ(rows_that_see(1, batch), rows_to(1, 2));
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<ModelConfig, Dtype>>& info) {
  const auto& [config, dtype] = info.param;
  return std::string(name_of(config.family)) + "_" + name_of(dtype);
}

INSTANTIATE_TEST_SUITE_P(Families, DecoderBlockTest,
                         ::testing::Combine(::testing::ValuesIn(configs()),
                                            ::testing::Values(Dtype::f32, Dtype::bf16)),
                         name_of_case);

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

// 36 columns into (6 + 2 + 2) × 8 rows of q, k and v, and back from 48; 36 into gate and up of 52
// each, and back from 52.
TEST(DecoderBlockCost, CountsTheWeightsOfGroupedQueriesAndGates) {
  double weights = 0;
  for (const ops::MatmulShape& shape :
       DecoderBlock(rotary_config(Family::llama), Dtype::bf16, kLimits).matmul_shapes()) {
    if (shape.kind == ops::MatmulKind::forward) {
      weights += static_cast<double>(shape.n) * static_cast<double>(shape.k);
    }
  }
  EXPECT_EQ(weights, 36 * 80 + 48 * 36 + 36 * 104 + 52 * 36);
}

// With a window of 4, the 11 tokens of a sequence see 1 + 2 + 3 + 8 × 4 = 38 keys.
TEST(DecoderBlockCost, CountsTheKeysOfAWindow) {
  const auto flops = [](std::int64_t window) {
    ModelConfig config = rotary_config(Family::mistral);
    config.window = window;
    return DecoderBlock(config, Dtype::bf16, kLimits).forward_flops(kLimits);
  };
  EXPECT_DOUBLE_EQ(flops(0) - flops(4), 2.0 * 2 * 2 * (66 - 38) * 48);
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
  const DecoderBlock block(gpt2(), Dtype::f32, kLimits);
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

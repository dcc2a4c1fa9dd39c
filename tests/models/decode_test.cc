// Decoding a sequence piece by piece through a block gives what the block's forward gives of the
// whole sequence, for every family.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "models/decoder_block.h"
#include "models/presets.h"
#include "tests/support/test_device.h"

namespace strata::models {
namespace {

using strata::testing::random_values;
using strata::testing::TestDevice;

constexpr std::int64_t kTokens = 24;
constexpr std::int64_t kPieceMax = 9;

ModelConfig config_of(Family family) {
  if (family == Family::gpt2) return parse_model("gpt2:layers=1,hidden=36,heads=3,context=24");
  ModelConfig config;
  apply_family(config, family);
  config.layers = 1;
  config.hidden = 36;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_dim = 8;  // wider than C / H
  config.intermediate = 52;
  config.context = kTokens;
  config.vocabulary = kByteVocabulary;
  config.window = family == Family::mistral ? 5 : 0;
  config.rotary = {.head_dim = config.head_dim, .theta = 100};
  return config;
}

class Decode : public ::testing::TestWithParam<Family> {
 protected:
  // (T, C) of random weights, the rotary tables and the positions of one sequence.
  Decode() {
    if (config_.rotary) {
      std::vector<float> tables(static_cast<std::size_t>(kTokens * config_.head_dim));
      const std::size_t half = tables.size() / 2;
      fill_rotary_tables(*config_.rotary, std::span(tables).first(half),
                         std::span(tables).last(half));
      rotary_ = device_.upload(tables);
    }
    std::vector<std::int32_t> positions(kTokens);
    std::iota(positions.begin(), positions.end(), 0);
    positions_ = device_.upload(positions);
    const UnitSpec unit = block_unit(config_, 0).spec;
    // Around 0, so that biases and norms matter, too.
    weights_ = device_.upload(random_values(Dtype::f32, unit.elements, 1, 0.1f, 0.35f));
    x_ = device_.upload(random_values(Dtype::f32, kTokens * config_.hidden, 2));
  }

  ops::RotaryTables tables() const {
    if (!config_.rotary) return {};
    const auto* const cos = reinterpret_cast<const float*>(rotary_.data());
    return {cos, cos + kTokens * config_.head_dim / 2, kTokens, config_.head_dim};
  }
  Batch batch(std::int64_t first, std::int64_t tokens) const {
    return {.sequences = 1,
            .tokens = tokens,
            .positions = reinterpret_cast<const std::int32_t*>(positions_.data()) + first};
  }
  const std::byte* x(std::int64_t row) const {
    return x_.data() + row * config_.hidden * bytes_of(Dtype::f32);
  }

  std::vector<float> whole() {
    const DecoderBlock block(config_, Dtype::f32, batch(0, kTokens), tables());
    const DeviceBuffer saved = device_.allocate(block.saved_bytes());
    const DeviceBuffer out = device_.allocate(kTokens * config_.hidden * 4);
    block.forward(device_.stream(), batch(0, kTokens), weights_.data(), x(0), saved.data(),
                  out.data());
    return device_.read<float>(out.data(), kTokens * config_.hidden);
  }

  std::vector<float> in_pieces(const std::vector<std::int64_t>& pieces) {
    const DecoderBlock block(config_, Dtype::f32, batch(0, kPieceMax), tables());
    const DeviceBuffer scratch = device_.allocate_guarded(block.saved_bytes());
    const DeviceBuffer out = device_.allocate(kPieceMax * config_.hidden * 4);
    const std::vector<float> zeros(static_cast<std::size_t>(kTokens * config_.kv_channels()));
    const DeviceBuffer k = device_.upload(zeros);
    const DeviceBuffer v = device_.upload(zeros);
    const auto rows = [&](const DeviceBuffer& memory) {
      return ops::Matrix::dense(memory.data(), Dtype::f32, kTokens, config_.kv_channels());
    };
    std::vector<float> all;
    std::int64_t past = 0;
    for (const std::int64_t tokens : pieces) {
      block.decode(device_.stream(), batch(past, tokens), past, {rows(k), rows(v)}, weights_.data(),
                   x(past), scratch.data(), out.data());
      const auto piece = device_.read<float>(out.data(), tokens * config_.hidden);
      all.insert(all.end(), piece.begin(), piece.end());
      past += tokens;
    }
    device_.expect_guard(scratch, block.saved_bytes());
    return all;
  }

  ModelConfig config_ = config_of(GetParam());
  TestDevice device_{{.weight_rows_max = 144,
                      .weight_cols_max = 144,
                      .rows_max = kTokens,
                      .tokens_max = kTokens,
                      .head_dim = 16,
                      .heads_per_kv_head = 3},
                     Dtype::f32};
  DeviceBuffer rotary_;
  DeviceBuffer positions_;
  DeviceBuffer weights_;
  DeviceBuffer x_;
};

// The same f32 sums in another order: of at most 144 products, so each differs by at most
// 144 · 2^-24 < 1e-5 of the magnitudes that it adds, which are those of the output.
TEST_P(Decode, InPiecesIsTheForwardOfTheWhole) {
  const std::vector<float> expected = whole();
  const float largest = std::abs(
      *std::ranges::max_element(expected, {}, [](float value) { return std::abs(value); }));
  for (const std::vector<std::int64_t>& pieces :
       {std::vector<std::int64_t>(kTokens, 1), std::vector<std::int64_t>{9, 9, 6},
        std::vector<std::int64_t>{7, 1, 1, 9, 6}}) {
    const std::vector<float> actual = in_pieces(pieces);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 1e-5 * largest)
          << "row " << i / static_cast<std::size_t>(config_.hidden);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Decode,
                         ::testing::Values(Family::gpt2, Family::llama, Family::mistral,
                                           Family::qwen2, Family::qwen3),
                         [](const auto& family) { return name_of(family.param); });

}  // namespace
}  // namespace strata::models

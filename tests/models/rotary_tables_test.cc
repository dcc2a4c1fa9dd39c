#include "models/rotary_tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <string>

#include "tests/models/rotary_goldens.h"

namespace strata::models {
namespace {

struct Case {
  std::string name;
  RotaryConfig config;
  const goldens::Rotary& expected;
};

const Llama3Rotary kLlama31{
    .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192};
const Llama3Rotary kLlama32{
    .factor = 32, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192};
const YarnRotary kYarn{.factor = 4, .original_context = 4096};
const YarnRotary kYarnExact{.factor = 16,
                            .original_context = 4096,
                            .beta_fast = 16,
                            .beta_slow = 2,
                            .range = YarnRotary::Range::exact,
                            .attention_factor = 1.25};
const YarnRotary kYarnMscale{
    .factor = 40, .original_context = 4096, .mscale = 1.0, .mscale_all_dim = 0.5};
const YarnRotary kYarnStep{.factor = 4, .original_context = 6};  // the two indices meet

const Case kCases[] = {
    {"Plain", {16, 1e4, PlainRotary{}}, goldens::kPlain},
    {"Linear", {16, 1e4, LinearRotary{.factor = 4}}, goldens::kLinear},
    {"Llama31", {32, 5e5, kLlama31}, goldens::kLlama31},
    {"Llama32", {32, 5e5, kLlama32}, goldens::kLlama32},
    {"Yarn", {32, 1e6, kYarn}, goldens::kYarn},
    {"YarnExact", {32, 1e4, kYarnExact}, goldens::kYarnExact},
    {"YarnMscale", {32, 1e4, kYarnMscale}, goldens::kYarnMscale},
    {"YarnStep", {32, 1e4, kYarnStep}, goldens::kYarnStep},
};

// PyTorch's pow is within an ulp (2^-23), ours within half of one. A mixed frequency moves by at
// most 7/3 of a change of the plain one (Llama 3: 1, and high / (high - low) = 4/3 through the
// share), and each of the half dozen operations after the power may round differently: within
// 16 roundings of the plain frequency.
double frequency_tolerance(const RotaryConfig& config, std::size_t i) {
  const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim);
  return 16 * 0x1p-24 * std::pow(config.theta, -exponent);
}

class RotaryTables : public ::testing::TestWithParam<Case> {};

TEST_P(RotaryTables, FrequenciesAreThoseOfTransformers) {
  const auto& [name, config, expected] = GetParam();
  const RotaryFrequencies got = rotary_frequencies(config);
  EXPECT_FLOAT_EQ(got.attention_factor, expected.attention_factor);
  ASSERT_EQ(got.radians_per_position.size(), expected.frequencies.size());
  for (std::size_t i = 0; i < expected.frequencies.size(); ++i) {
    EXPECT_NEAR(got.radians_per_position[i], expected.frequencies[i],
                frequency_tolerance(config, i))
        << i;
  }
}

// An angle differs by its frequency's error and by the rounding of the product; sines and cosines,
// and their product with the factor, by an ulp each.
TEST_P(RotaryTables, CosinesAndSinesAreThoseOfTransformers) {
  const auto& [name, config, expected] = GetParam();
  const std::size_t half = expected.frequencies.size();
  const std::size_t positions = goldens::kRotaryPositions[std::size(goldens::kRotaryPositions) - 1];
  std::vector<float> cos((positions + 1) * half), sin((positions + 1) * half);
  fill_rotary_tables(config, cos, sin);
  for (std::size_t row = 0; row < std::size(goldens::kRotaryPositions); ++row) {
    const auto position = static_cast<std::size_t>(goldens::kRotaryPositions[row]);
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * frequency_tolerance(config, i) +
                           static_cast<double>(position) * expected.frequencies[i] * 0x1p-23;
      const double tolerance = expected.attention_factor * (angle + 2 * 0x1p-23);
      EXPECT_NEAR(cos[position * half + i], expected.cos[row * half + i], tolerance)
          << "position " << position << ", frequency " << i;
      EXPECT_NEAR(sin[position * half + i], expected.sin[row * half + i], tolerance)
          << "position " << position << ", frequency " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Scalings, RotaryTables, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(RotaryFrequencies, WithoutScalingAFactorOfOneChangesNothing) {
  const auto plain = rotary_frequencies({.head_dim = 64}).radians_per_position;
  const RotaryConfig linear{.head_dim = 64, .scaling = LinearRotary{.factor = 1}};
  EXPECT_EQ(rotary_frequencies(linear).radians_per_position, plain);
}

}  // namespace
}  // namespace strata::models

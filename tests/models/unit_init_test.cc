#include "models/unit_init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/model_units.h"
#include "models/philox.h"
#include "models/presets.h"

namespace strata::models {
namespace {

constexpr std::uint64_t kSeed = 1337;

std::vector<float> values_of(const UnitSpec& unit, std::uint64_t seed, std::int64_t first,
                             std::int64_t elements) {
  std::vector<float> values(static_cast<std::size_t>(elements), -1.0f);
  initial_values(unit, seed, first, values);
  return values;
}

UnitSpec block_with_gaps() {
  return block_unit(parse_model("gpt2:layers=2,hidden=36,heads=3,context=24"), 1).spec;
}

// Known answers of Random123 1.09 (kat_vectors, "philox4x32 10").
TEST(Philox, GivesThePublishedKnownAnswers) {
  using Block = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(UnitInit, AnyRangeEqualsThatRangeOfTheWhole) {
  const UnitSpec unit = block_with_gaps();
  const std::int64_t length = unit.elements + 100;
  const std::vector<float> whole = values_of(unit, kSeed, 0, length);
  for (const std::int64_t first : {0L, 1L, 35L, 36L, 63L, 130L, 4097L, length - 3}) {
    for (const std::int64_t elements : {0L, 1L, 2L, 5L, 64L, 1000L, length}) {
      const std::int64_t count = std::min(elements, length - first);
      const std::vector<float> part = values_of(unit, kSeed, first, count);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first))
          << "range of " << count << " from " << first;
    }
  }
}

TEST(UnitInit, GapsAndPaddingAreZero) {
  const UnitSpec unit = block_with_gaps();
  std::vector<float> values = values_of(unit, kSeed, 0, unit.elements + 4096);
  for (const TensorSpec& tensor : unit.tensors) {
    std::fill_n(values.begin() + tensor.offset_elements, tensor.elements(), 0.0f);
  }
  EXPECT_TRUE(std::ranges::all_of(values, [](float value) { return value == 0.0f; }));
}

TEST(UnitInit, PiecesOfATableEqualTheTable) {
  UnitSpec whole{"wte", UnitRole::token_table, 100 * 7, {}};
  whole.tensors.push_back({"wte.weight", 100, 7, 0, 0, true, Initial::normal, 0.02f});
  UnitSpec piece{"wte.1", UnitRole::token_table, 36 * 7, {}};
  piece.tensors.push_back({"wte.weight", 36, 7, 64, 0, true, Initial::normal, 0.02f});
  const std::vector<float> all = values_of(whole, kSeed, 0, whole.elements);
  const std::vector<float> tail = values_of(piece, kSeed, 0, piece.elements);
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), all.begin() + 64 * 7));
}

// Samples n of a normal: the mean has standard error s / sqrt(n), the standard deviation
// s / sqrt(2 n), the kurtosis sqrt(24 / n). Five standard errors; the seed is fixed.
TEST(UnitInit, WeightsAreNormalWithTheSpecifiedDeviation) {
  const ModelConfig config = parse_model("gpt2:layers=8,hidden=128,heads=2,context=256");
  for (const UnitSpec& unit : {block_unit(config, 3).spec, model_units(config).front()}) {
    const std::vector<float> values = values_of(unit, kSeed, 0, unit.elements);
    for (const TensorSpec& tensor : unit.tensors) {
      const float* const data = values.data() + tensor.offset_elements;
      if (tensor.initial != Initial::normal) {
        const float expected = tensor.initial == Initial::ones ? 1.0f : 0.0f;
        EXPECT_TRUE(std::all_of(data, data + tensor.elements(),
                                [&](float value) { return value == expected; }));
        continue;
      }
      const auto n = static_cast<double>(tensor.elements());
      const double s = tensor.initial_std;
      double moments[5] = {};
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        for (int power = 1; power <= 4; ++power) moments[power] += std::pow(data[i] / s, power) / n;
      }
      EXPECT_NEAR(moments[1], 0, 5 / std::sqrt(n)) << tensor.name;
      EXPECT_NEAR(std::sqrt(moments[2]), 1, 5 / std::sqrt(2 * n)) << tensor.name;
      EXPECT_NEAR(moments[4] / (moments[2] * moments[2]), 3, 5 * std::sqrt(24 / n)) << tensor.name;
    }
  }
}

// Correlation of n independent pairs has standard error 1 / sqrt(n).
TEST(UnitInit, TensorsLayersAndSeedsAreIndependent) {
  const ModelConfig config = parse_model("gpt2:layers=2,hidden=64,heads=2,context=64");
  const BlockUnit block = block_unit(config, 0);
  const UnitSpec& first = block.spec;
  const UnitSpec second = block_unit(config, 1).spec;
  const TensorSpec& tensor = first.tensors[block.tensors.mlp_in_weight.first];
  const auto piece = [&](const UnitSpec& unit, std::uint64_t seed, TensorRun which) {
    return values_of(unit, seed, unit.tensors[which.first].offset_elements, tensor.elements());
  };
  const std::vector<float> base = piece(first, kSeed, block.tensors.mlp_in_weight);
  const auto correlation = [&](const std::vector<float>& other) {
    double product = 0, base_square = 0, other_square = 0;
    for (std::size_t i = 0; i < base.size(); ++i) {
      product += double{base[i]} * other[i];
      base_square += double{base[i]} * base[i];
      other_square += double{other[i]} * other[i];
    }
    return product / std::sqrt(base_square * other_square);
  };
  const double bound = 5 / std::sqrt(static_cast<double>(base.size()));
  EXPECT_NEAR(correlation(piece(first, kSeed + 1, block.tensors.mlp_in_weight)), 0, bound);
  EXPECT_NEAR(correlation(piece(first, kSeed + (1ull << 32), block.tensors.mlp_in_weight)), 0,
              bound);
  EXPECT_NEAR(correlation(piece(second, kSeed, block.tensors.mlp_in_weight)), 0, bound);
  EXPECT_NEAR(correlation(piece(first, kSeed, block.tensors.mlp_out_weight)), 0, bound);
  std::vector<float> shifted = base;  // neighbours within a tensor
  std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
  EXPECT_NEAR(correlation(shifted), 0, bound);
}

}  // namespace
}  // namespace strata::models

// Which elements decay, which learn slower, which are frozen; and what --no-decay and --lr-scale
// refuse.
#include "engine/plan/parameter_groups.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;

constexpr double kRate = 1e-3;
constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

models::TensorSpec tensor(const std::string& name, std::int64_t offset, bool decay) {
  models::TensorSpec spec;
  spec.name = name;
  spec.offset_elements = offset;
  spec.decay = decay;
  return spec;
}

std::vector<models::UnitSpec> units() {
  using models::UnitRole;
  return {{"wte", UnitRole::token_table, 4096, {tensor("wte.weight", 0, true)}},
          {"h.0",
           UnitRole::block,
           512,
           {tensor("h.0.ln.weight", 0, false), tensor("h.0.ln.bias", 64, false),
            tensor("h.0.mlp.weight", 128, true), tensor("h.0.mlp.bias", 384, false)}}};
}

using Groups = std::vector<std::vector<ParameterSegment>>;

void expect_segments(const std::vector<ParameterSegment>& actual,
                     const std::vector<ParameterSegment>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].last, expected[i].last) << i;
    EXPECT_EQ(actual[i].lr_scale, expected[i].lr_scale) << i;
    EXPECT_EQ(actual[i].decay, expected[i].decay) << i;
  }
}

TEST(ParameterGroups, MatricesDecayAndEqualNeighboursAreOne) {
  const Groups groups = parameter_groups(units(), {}, {}, kRate);
  expect_segments(groups[0], {{kEnd, 1, true}});
  expect_segments(groups[1], {{128, 1, false}, {384, 1, true}, {kEnd, 1, false}});
}

TEST(ParameterGroups, NoDecayIsBesidesBiasesAndNorms) {
  expect_segments(parameter_groups(units(), {"*.mlp.*"}, {}, kRate)[1], {{kEnd, 1, false}});
}

TEST(ParameterGroups, TheLastFactorThatMatchesCounts) {
  const Groups groups = parameter_groups(units(), {}, {"*=0.5", "h.*=2", "*.bias=0"}, kRate);
  expect_segments(groups[0], {{kEnd, 0.5, true}});
  expect_segments(groups[1], {{64, 2, false}, {128, 0, false}, {384, 2, true}, {kEnd, 0, false}});
  // In the other order the general pattern hides the others.
  const Groups hidden = parameter_groups(units(), {}, {"*.bias=0", "h.*=2", "*=0.5"}, kRate);
  expect_segments(hidden[1], {{128, 0.5, false}, {384, 0.5, true}, {kEnd, 0.5, false}});
}

TEST(ParameterGroups, AUnitIsFrozenWhenAllOfItIs) {
  const Groups groups = parameter_groups(units(), {}, {"wte.*=0", "h.0.ln.*=0"}, kRate);
  EXPECT_TRUE(wholly_frozen(groups[0]));
  EXPECT_FALSE(wholly_frozen(groups[1]));
}

TEST(ParameterGroups, RefusesByName) {
  struct Bad {
    std::vector<std::string> no_decay;
    std::vector<std::string> lr_scale;
    const char* mentions;
  };
  const Bad cases[] = {
      {{"nothing*"}, {}, "--no-decay 'nothing*'"},
      {{}, {"wte.*=1", "nothing*=0"}, "--lr-scale 'nothing*'"},
      {{}, {"wte.*"}, "'wte.*' is not PATTERN=X"},
      {{}, {"=0.5"}, "'=0.5' is not PATTERN=X"},
      {{}, {"wte.*=-0.1"}, "'wte.*=-0.1' is not a number from 0 up"},
      {{}, {"wte.*=nan"}, "'wte.*=nan' is not a number"},
      {{}, {"wte.*=inf"}, "'wte.*=inf' is not a number"},
      {{}, {"wte.*="}, "'wte.*=' is not a number"},
      {{}, {"wte.*=0.5x"}, "'wte.*=0.5x' is not a number"},
      {{}, {"wte.*=1e-43"}, "'wte.*=1e-43' makes the --lr of 0.001 0 as f32"},
      {{}, {"wte.*=1e42"}, "'wte.*=1e42' makes the --lr of 0.001 inf as f32"},
      {{}, {"*=0"}, "freezes every parameter"},
  };
  for (const Bad& bad : cases) {
    const std::string text = error_text<ConfigError>(
        [&] { parameter_groups(units(), bad.no_decay, bad.lr_scale, kRate); });
    EXPECT_PRED2(mentions, text, bad.mentions);
  }
}

std::vector<std::pair<std::int64_t, std::int64_t>> pairs(const std::vector<ElementRange>& ranges) {
  std::vector<std::pair<std::int64_t, std::int64_t>> result;
  for (const ElementRange& range : ranges) result.emplace_back(range.first, range.last);
  return result;
}

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

TEST(TrainedRanges, AreCutToTheShardAndCountedFromIt) {
  const std::vector<ParameterSegment> segments = {
      {100, 1, true}, {200, 0, false}, {300, 1, false}, {400, 2, true}, {kEnd, 0, true}};
  EXPECT_EQ(pairs(trained_ranges(segments, 0, 1000)), (Pairs{{0, 100}, {200, 400}}));
  EXPECT_EQ(pairs(trained_ranges(segments, 50, 250)), (Pairs{{0, 50}, {150, 200}}));
  EXPECT_EQ(pairs(trained_ranges(segments, 100, 200)), Pairs{});
  EXPECT_EQ(pairs(trained_ranges(segments, 350, 1000)), (Pairs{{0, 50}}));
  EXPECT_EQ(pairs(trained_ranges({{kEnd, 1, true}}, 8192, 12288)), (Pairs{{0, 4096}}));
}

}  // namespace
}  // namespace strata::engine

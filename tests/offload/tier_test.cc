#include "offload/tier.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata::offload {
namespace {

using test::error_text;
using test::mentions;

std::optional<Tier> of(const Placement& placement, StateKind kind) {
  return placement.states[static_cast<std::size_t>(kind)];
}

TEST(Placement, EmptyLeavesEverythingToThePlan) {
  const Placement placement = parse_placement("");
  for (const auto& tier : placement.states) EXPECT_FALSE(tier.has_value());
  EXPECT_FALSE(placement.activations.has_value());
}

TEST(Placement, KindsAndTheirGroups) {
  const Placement placement = parse_placement("weights=host,moments=nvme,remainder=device");
  EXPECT_EQ(of(placement, StateKind::weights), Tier::host);
  EXPECT_EQ(of(placement, StateKind::moment1), Tier::nvme);
  EXPECT_EQ(of(placement, StateKind::moment2), Tier::nvme);
  EXPECT_EQ(of(placement, StateKind::remainder), Tier::device);
  EXPECT_FALSE(of(placement, StateKind::gradients).has_value());
}

TEST(Placement, AllIsWhatIsNotNamed) {
  for (const char* text : {"all=nvme,gradients=host", "gradients=host,all=nvme"}) {
    const Placement placement = parse_placement(text);
    EXPECT_EQ(of(placement, StateKind::weights), Tier::nvme);
    EXPECT_EQ(of(placement, StateKind::moment2), Tier::nvme);
    EXPECT_EQ(of(placement, StateKind::gradients), Tier::host);
  }
}

TEST(Placement, ErrorsNameThePart) {
  for (const auto& [text, part] :
       std::vector<std::pair<std::string, std::string>>{{"weights=host,biases=nvme", "'biases'"},
                                                        {"weights=disk", "'disk'"},
                                                        {"weights", "'weights'"},
                                                        {"weights=host,,all=nvme", "''"},
                                                        {"weights=host,weights=nvme", "twice"},
                                                        {"all=host,all=host", "twice"},
                                                        {"activations=host", "--activations"}}) {
    EXPECT_TRUE(mentions(error_text<ConfigError>([&] { parse_placement(text); }), part)) << text;
  }
}

TEST(Tier, NamesAreWhatParsingTakes) {
  for (const Tier tier : {Tier::device, Tier::host, Tier::nvme}) {
    EXPECT_EQ(parse_tier(name_of(tier)), tier);
  }
  EXPECT_TRUE(mentions(error_text<ConfigError>([] { parse_tier("ssd"); }), "device, host or nvme"));
}

// 2 + 2 + 4 + 4: the design's 12 bytes per parameter, in both precisions.
TEST(ElementBytes, AParametersWholeStateIsTwelveBytes) {
  for (const Dtype weights : {Dtype::bf16, Dtype::f32}) {
    const StateDtypes dtypes{weights, Dtype::f32};
    std::int64_t bytes = 0;
    for (const StateKind kind :
         {StateKind::weights, StateKind::remainder, StateKind::moment1, StateKind::moment2}) {
      bytes += element_bytes(kind, dtypes);
    }
    EXPECT_EQ(bytes, 12);
  }
  EXPECT_EQ(element_bytes(StateKind::remainder, {Dtype::f32, Dtype::f32}), 0);
  EXPECT_EQ(element_bytes(StateKind::gradients, {Dtype::bf16, Dtype::bf16}), 2);
}

constexpr StateDtypes kInt8{Dtype::bf16, Dtype::f32, MomentFormat::int8};
constexpr StateDtypes kLion{Dtype::bf16, Dtype::f32, MomentFormat::int8, 1};

TEST(StateBytes, AreTheElementsButForScales) {
  const StateDtypes bf16{Dtype::bf16, Dtype::f32, MomentFormat::bf16};
  EXPECT_EQ(state_bytes(StateKind::moment1, bf16, 12288), 2 * 12288);
  EXPECT_EQ(state_bytes(StateKind::moment2, {}, 12288), 4 * 12288);
  EXPECT_EQ(state_bytes(StateKind::weights, kInt8, 12288), 2 * 12288);
}

// A block of 2^18 elements: 2^18 codes, then 1,024 scales of 4 bytes, one page exactly.
TEST(StateBytes, EveryBlockInInt8HasItsScales) {
  for (const StateKind moment : {StateKind::moment1, StateKind::moment2}) {
    EXPECT_EQ(state_bytes(moment, kInt8, 1 << 18), (1 << 18) + 4096);
    EXPECT_EQ(state_bytes(moment, kInt8, 3 << 18), 3 * ((1 << 18) + 4096));
    // The last block of a shard is shorter: 4,096 codes and 16 scales, padded to a page.
    EXPECT_EQ(state_bytes(moment, kInt8, (1 << 18) + 4096), (1 << 18) + 4096 + 4096 + 4096);
    EXPECT_EQ(state_bytes(moment, kInt8, 12288, 4096), 3 * (4096 + 4096));
    EXPECT_EQ(state_bytes(moment, kInt8, 0), 0);
  }
}

TEST(StateBytes, LionHasOneMoment) {
  EXPECT_EQ(state_bytes(StateKind::moment1, kLion, 8192, 4096), 2 * 8192);
  EXPECT_EQ(state_bytes(StateKind::moment2, kLion, 8192, 4096), 0);
  EXPECT_EQ(element_bytes(StateKind::moment2, {Dtype::bf16, Dtype::f32, MomentFormat::f32, 1}), 0);
}

// Codes and scales of a shard of two and a half blocks fill its bytes without overlap: no code's
// byte and no scale is anyone else's.
TEST(Int8Offsets, NothingOverlaps) {
  constexpr std::int64_t kBlock = 8192;
  constexpr std::int64_t kElements = 2 * kBlock + 4096;
  std::vector<std::int64_t> owner(
      static_cast<std::size_t>(state_bytes(StateKind::moment1, kInt8, kElements, kBlock)), -1);
  for (std::int64_t e = 0; e < kElements; ++e) {
    const Int8Offsets at = int8_offsets(e, kElements, kBlock);
    const std::int64_t block_begin =
        state_bytes(StateKind::moment1, kInt8, e / kBlock * kBlock, kBlock);
    EXPECT_EQ(at.code_bytes, block_begin + e % kBlock);
    EXPECT_EQ(std::exchange(owner[static_cast<std::size_t>(at.code_bytes)], e), -1);
    ASSERT_LE(at.scale_bytes + 4, std::ssize(owner));
    for (std::int64_t b = at.scale_bytes; b < at.scale_bytes + 4; ++b) {
      const std::int64_t group = kElements + e / 256;
      const std::int64_t before = std::exchange(owner[static_cast<std::size_t>(b)], group);
      EXPECT_TRUE(before == (e % 256 == 0 ? -1 : group)) << "element " << e;
    }
  }
}

}  // namespace
}  // namespace strata::offload

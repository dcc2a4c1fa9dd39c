#include "offload/tier.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace strata::offload

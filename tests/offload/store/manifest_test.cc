#include "offload/store/manifest.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "tests/offload/store/small_manifest.h"
#include "tests/support/error_text.h"

namespace strata::store::testing {
namespace {

using nlohmann::json;
using offload::StateKind;
using test::error_text;
using test::mentions;

TEST(Manifest, SaysWhatThePlanPutWhere) {
  const Manifest manifest = small_manifest();
  ASSERT_EQ(manifest.units.size(), 5u);
  const StoredUnit& table = manifest.units[0];
  EXPECT_EQ(table.name, "table");
  EXPECT_EQ(table.elements, 20000);
  EXPECT_EQ(table.shard_elements, 20480);
  const auto extent = [&](StateKind kind) { return table.extents[static_cast<std::size_t>(kind)]; };
  EXPECT_EQ(extent(StateKind::weights)->bytes, 20480 * 2);
  EXPECT_EQ(extent(StateKind::moment2)->bytes, 20480 * 4);
  EXPECT_EQ(extent(StateKind::gradients)->bytes, 20480 * 4);
  // Kind after kind: all weights come first.
  EXPECT_EQ(extent(StateKind::weights)->slot_offsets, std::vector<std::int64_t>{0});
  EXPECT_EQ(extent(StateKind::remainder)->slot_offsets[0], (20480 + 3 * 12288 + 4096) * 2);
  // By hand, in blocks of 4,096 elements, without gradients: shards of 5, 3, 3, 3 and 1.
  EXPECT_EQ(manifest.committed_blocks(), 15 * 4);
  EXPECT_EQ(manifest.data_bytes, 15 * 4096 * 16);
}

TEST(Manifest, StatesOnOtherTiersHaveNoExtents) {
  offload::PlanInput input = offload::testing::placed(offload::Tier::nvme, offload::Tier::nvme);
  input.placement.states[static_cast<std::size_t>(StateKind::weights)] = offload::Tier::host;
  const Manifest manifest = make_manifest(offload::testing::plan_of(input),
                                          std::vector<std::vector<Parameter>>(input.units.size()));
  EXPECT_FALSE(manifest.units[1].extents[static_cast<std::size_t>(StateKind::weights)]);
  EXPECT_TRUE(manifest.units[1].extents[static_cast<std::size_t>(StateKind::moment1)]);
}

TEST(Manifest, ADurableStoreHasEveryLastingStateWhateverItsTier) {
  offload::PlanInput input = offload::testing::placed(offload::Tier::host, offload::Tier::host);
  input.durability = offload::Durability::commits;
  input.units[2].frozen = true;
  const Manifest manifest = make_manifest(offload::testing::plan_of(input),
                                          std::vector<std::vector<Parameter>>(input.units.size()));
  EXPECT_EQ(manifest.slots, 2);
  EXPECT_EQ(decode_manifest(encode(manifest)).units, manifest.units);
  const auto slots = [&](std::size_t unit, StateKind kind) {
    const auto& extent = manifest.units[unit].extents[static_cast<std::size_t>(kind)];
    return extent ? extent->slot_offsets.size() : 0;
  };
  EXPECT_EQ(slots(1, StateKind::moment2), 2u);
  EXPECT_EQ(slots(1, StateKind::gradients), 0u) << "in host memory, and they do not last";
  EXPECT_EQ(slots(2, StateKind::weights), 1u) << "frozen";
  EXPECT_EQ(slots(2, StateKind::moment1), 0u);
}

// One live bit serves all states of a shard.
TEST(Manifest, StatesOfAShardHaveEquallyManySlots) {
  json manifest = json::parse(encode(two_slot_manifest()));
  manifest["units"][0]["extents"]["moment1"]["slots"].erase(1);
  const std::string text = error_text<FormatError>([&] { decode_manifest(manifest.dump()); });
  EXPECT_TRUE(mentions(text, "an extent's slots")) << text;
}

TEST(Manifest, SurvivesEncodingAndDecoding) {
  for (const Manifest& manifest : {small_manifest(), two_slot_manifest()}) {
    const Manifest decoded = decode_manifest(encode(manifest));
    EXPECT_EQ(decoded.units, manifest.units);
    EXPECT_EQ(decoded.slots, manifest.slots);
    EXPECT_EQ(decoded.block_elements, manifest.block_elements);
    EXPECT_EQ(decoded.data_bytes, manifest.data_bytes);
    EXPECT_EQ(encode(decoded), encode(manifest));
  }
}

struct Damage {
  const char* named;  // in the error
  std::function<void(json& manifest)> make;
};

const Damage kDamages[] = {
    {"slot", [](json& m) { m["slots"] = 3; }},
    {"'slots'", [](json& m) { m["slots"] = "1"; }},
    {"block_elements", [](json& m) { m.erase("block_elements"); }},
    {"the block's elements", [](json& m) { m["block_elements"] = 4097; }},
    {"the block's elements", [](json& m) { m["block_elements"] = 0; }},
    {"no object", [](json& m) { m["more"] = 1; }},
    {"no array", [](json& m) { m["units"] = 7; }},
    {"no object", [](json& m) { m["units"][0] = 7; }},
    {"no integer", [](json& m) { m["units"][0]["elements"] = 1.5; }},
    {"no integer", [](json& m) { m["units"][0]["elements"] = 18446744073709551615u; }},
    {"a unit's elements", [](json& m) { m["units"][0]["elements"] = -1; }},
    {"a shard's elements", [](json& m) { m["units"][0]["shard_elements"] = 20481; }},
    {"moments", [](json& m) { m["dtypes"]["moments"] = "f16"; }},
    {"moment_count", [](json& m) { m["dtypes"]["moment_count"] = 0; }},
    {"known kinds", [](json& m) { m["units"][0]["extents"]["moment3"] = 1; }},
    {"known kinds", [](json& m) { m["units"][0]["extents"] = 1; }},
    {"have 4 bytes", [](json& m) { m["units"][0]["extents"]["moment1"]["bytes"] = 4; }},
    {"an extent's slots",
     [](json& m) {
       m["units"][0]["extents"]["moment1"]["slots"] = {0, 0};
     }},
    {"an extent's offset", [](json& m) { m["units"][0]["extents"]["moment1"]["slots"] = {-4096}; }},
    {"an extent's offset",
     [](json& m) { m["units"][0]["extents"]["moment1"]["slots"] = {INT64_MAX}; }},
    {"within a page", [](json& m) { m["units"][0]["extents"]["moment1"]["slots"] = {100}; }},
    {"overlap", [](json& m) { m["units"][0]["extents"]["moment1"]["slots"] = {0}; }},
    {"an extent's offset", [](json& m) { m["data_bytes"] = 4096; }},
    {"a parameter's end", [](json& m) { m["units"][0]["parameters"][1]["rows"] = 101; }},
    {"a parameter's offset", [](json& m) { m["units"][0]["parameters"][1]["offset"] = 9999; }},
    {"a parameter's columns",
     [](json& m) {
       m["units"][0]["parameters"][0]["rows"] = std::int64_t{1} << 40;
       m["units"][0]["parameters"][0]["columns"] = std::int64_t{1} << 40;
     }},
};

TEST(Manifest, EveryWrongNumberIsNamed) {
  const json manifest = json::parse(encode(small_manifest()));
  EXPECT_NO_THROW(decode_manifest(manifest.dump()));
  for (const Damage& damage : kDamages) {
    json damaged = manifest;
    damage.make(damaged);
    const std::string text = error_text<FormatError>([&] { decode_manifest(damaged.dump()); });
    EXPECT_TRUE(mentions(text, damage.named)) << text << "\n  wanted: " << damage.named;
  }
}

TEST(Manifest, WhatIsNoJsonIsRefused) {
  const std::string text = encode(small_manifest());
  for (const std::string& wrong : {std::string(), std::string("[]"), text.substr(0, 100),
                                   text + "x", std::string(100000, '['), std::string("\xff\xfe")}) {
    EXPECT_THROW(decode_manifest(wrong), FormatError);
  }
}

}  // namespace
}  // namespace strata::store::testing

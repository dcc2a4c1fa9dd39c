// Where a rank's state lies in its storage, and what durability makes of it.
#include "offload/extent_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/offload/small_plan.h"

namespace strata::offload {
namespace {

using testing::kRecords;
using testing::kUnits;
using testing::placed;
using testing::plan_of;
using testing::small_input;

constexpr int kFrozen = 2;

PlanInput durable(PlanInput input, Durability durability) {
  input.durability = durability;
  input.units[kFrozen].frozen = true;
  return input;
}

// As a table: state by state, the offsets of its slots.
std::vector<std::array<std::int64_t, kSlotsMax>> lasting_places(const Plan& plan) {
  const ExtentMap map(plan);
  std::vector<std::array<std::int64_t, kSlotsMax>> places;
  for (int u = 0; u < kUnits; ++u) {
    for (const StateKind kind : kLastingKinds) places.push_back(map.of(u, kind).slot_offsets);
  }
  return places;
}

TEST(ExtentMap, WhatLastsLiesWhereItDidWhateverTheTiers) {
  for (const Durability durability : {Durability::clean_mark, Durability::commits}) {
    PlanInput mixed = small_input();
    mixed.placement = parse_placement("weights=host,moments=nvme,remainder=device,gradients=nvme");
    mixed.placement.activations = Tier::nvme;
    const auto places =
        lasting_places(plan_of(durable(placed(Tier::host, Tier::host), durability)));
    EXPECT_EQ(lasting_places(plan_of(durable(mixed, durability))), places);
    EXPECT_EQ(lasting_places(plan_of(durable(placed(Tier::nvme, Tier::nvme), durability))), places);
  }
}

struct Range {
  std::int64_t offset;
  std::int64_t bytes;
};

// Everything in the storage, each byte once: no slot overlaps another, and nothing lies fallow.
TEST(ExtentMap, SlotsAndRecordsFillTheStorage) {
  for (const Durability durability :
       {Durability::none, Durability::clean_mark, Durability::commits}) {
    for (const Tier tier : {Tier::host, Tier::nvme}) {
      const Plan plan = plan_of(durable(placed(tier, Tier::nvme), durability));
      const ExtentMap map(plan);
      std::vector<Range> ranges;
      for (int id = 0; id < map.id_of_record(kRecords); ++id) {
        for (int slot = 0; slot < map[id].slots; ++slot) {
          ranges.push_back({map[id].slot_offsets[static_cast<std::size_t>(slot)], map[id].bytes});
        }
      }
      std::ranges::sort(ranges, {},
                        [](const Range& range) { return std::pair(range.offset, range.bytes); });
      std::int64_t end = 0;
      for (const Range& range : ranges) {
        EXPECT_EQ(range.offset, end);
        end = range.offset + range.bytes;
      }
      EXPECT_EQ(map.bytes(), end);
      EXPECT_EQ(plan.total_bytes(Tier::nvme), end) << "what the plan reserves";
    }
  }
}

TEST(ExtentMap, EveryLastingStateHasASlotOrTwoAndGradientsOne) {
  const ExtentMap one(plan_of(durable(placed(Tier::nvme, Tier::host), Durability::clean_mark)));
  const ExtentMap two(plan_of(durable(placed(Tier::nvme, Tier::host), Durability::commits)));
  for (int u = 0; u < kUnits; ++u) {
    for (const StateKind kind : kLastingKinds) {
      EXPECT_EQ(one.of(u, kind).slots, 1);
      EXPECT_EQ(two.of(u, kind).slots, u == kFrozen ? 1 : 2);
    }
    EXPECT_EQ(two.of(u, StateKind::gradients).slots, 1);
  }
  EXPECT_EQ(two[two.id_of_record(0)].slots, 0) << "in host memory";
}

// Blocks of 4,096 elements: shards of 5, 3, 3, 3 and 1, the third frozen and without moments and
// gradient; six records of one block each.
TEST(ExtentMap, BlocksAreCountedPerSlot) {
  const ExtentMap none(plan_of(durable(placed(Tier::nvme, Tier::nvme), Durability::none)));
  const ExtentMap two(plan_of(durable(placed(Tier::host, Tier::device), Durability::commits)));
  EXPECT_EQ(none.blocks(), (5 + 3 + 3 + 1) * 5 + 3 * 2 + 6);
  EXPECT_EQ(two.blocks(), (5 + 3 + 3 + 1) * (2 * 4 + 1) + 3 * 2 + 6);
}

}  // namespace
}  // namespace strata::offload

// The diagram of live_slots.h, walked.
#include "offload/live_slots.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/offload/small_plan.h"

namespace strata::offload {
namespace {

using testing::kUnits;
using testing::placed;
using testing::plan_of;

constexpr int kUnit = 1;
constexpr int kFrozen = 2;

LiveSlots slots_of(Durability durability) {
  PlanInput input = placed(Tier::nvme, Tier::device);
  input.durability = durability;
  input.units[kFrozen].frozen = true;
  return LiveSlots(plan_of(input));
}

void expect(const LiveSlots& slots, int unit, int live, int target, bool is_protected) {
  EXPECT_EQ(slots.live(unit), live);
  EXPECT_EQ(slots.target(unit), target);
  EXPECT_EQ(slots.is_protected(unit), is_protected);
}

TEST(LiveSlots, UpdatesAreInPlaceUntilACommitRestsOnTheSlot) {
  LiveSlots slots = slots_of(Durability::commits);
  expect(slots, kUnit, 0, 0, false);
  slots.end_update(kUnit);
  expect(slots, kUnit, 0, 0, false);
  slots.protect_all();
  expect(slots, kUnit, 0, 1, true);
  slots.end_update(kUnit);
  expect(slots, kUnit, 1, 1, false);
  slots.end_update(kUnit);
  expect(slots, kUnit, 1, 1, false);
  slots.protect_all();
  slots.end_update(kUnit);
  expect(slots, kUnit, 0, 0, false);
}

TEST(LiveSlots, AUnitThatIsNotWrittenKeepsItsSlotOverCommits) {
  LiveSlots slots = slots_of(Durability::commits);
  for (int commit = 0; commit < 3; ++commit) {
    slots.protect_all();
    slots.end_update(kUnit);
    expect(slots, kUnit + 2, 0, 1, true);
  }
  expect(slots, kUnit, 1, 1, false);
}

TEST(LiveSlots, AStoreOfOneSlotAndAFrozenUnitStayThere) {
  LiveSlots one = slots_of(Durability::clean_mark);
  LiveSlots two = slots_of(Durability::commits);
  for (int commit = 0; commit < 2; ++commit) {
    one.protect_all();
    two.protect_all();
    expect(one, kUnit, 0, 0, true);
    expect(two, kFrozen, 0, 0, true);
    one.end_update(kUnit);
    expect(one, kUnit, 0, 0, false);
  }
}

TEST(LiveSlots, ACommitIsAdoptedAsItWasFilled) {
  LiveSlots slots = slots_of(Durability::commits);
  slots.protect_all();
  slots.end_update(kUnit);
  std::array<std::uint8_t, kUnits> live{};
  slots.fill(live);
  EXPECT_EQ(live, (std::array<std::uint8_t, kUnits>{0, 1, 0, 0, 0}));
  LiveSlots resumed = slots_of(Durability::commits);
  resumed.adopt(live);
  expect(resumed, kUnit, 1, 0, true);
  expect(resumed, kFrozen, 0, 0, true);
}

TEST(LiveSlotsDeathTest, AFrozenUnitHasNoOtherSlot) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  LiveSlots slots = slots_of(Durability::commits);
  const std::array<std::uint8_t, kUnits> live = {0, 0, 1, 0, 0};
  EXPECT_DEATH(slots.adopt(live), "no slot 1");
}

}  // namespace
}  // namespace strata::offload

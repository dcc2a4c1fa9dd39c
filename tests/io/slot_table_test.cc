#include "io/slot_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <set>

namespace strata::io {
namespace {

SlotBatch batch_of(std::initializer_list<Slot*> slots) {
  SlotBatch batch;
  for (Slot* slot : slots) batch.push(*slot);
  return batch;
}

TEST(SlotTable, HandsOutEachSlotOnce) {
  SlotTable table(5);
  std::set<Slot*> taken;
  while (table.has_free()) taken.insert(&table.take());
  EXPECT_EQ(taken.size(), 5u);
  EXPECT_EQ(table.in_flight(), 5);
}

// 8 slots: full, then open again when 2 are free.
TEST(SlotTable, IsSaturatedFromFullUntilAQuarterIsFree) {
  SlotTable table(8);
  Slot* slots[8];
  for (Slot*& slot : slots) {
    EXPECT_FALSE(table.saturated());
    slot = &table.take();
  }
  EXPECT_TRUE(table.saturated());
  EXPECT_FALSE(table.release(batch_of({slots[3]})));
  EXPECT_TRUE(table.saturated());
  EXPECT_TRUE(table.release(batch_of({slots[5]})));
  EXPECT_FALSE(table.saturated());
  EXPECT_FALSE(table.release(batch_of({slots[0], slots[1], slots[2]})));
}

TEST(SlotTable, AnAnswerTakesItsSubmissionOnce) {
  SlotTable table(4);
  Slot& slot = table.take();
  const std::uint64_t tag = slot.tag;
  EXPECT_EQ(table.take_answered(tag), &slot);
  EXPECT_EQ(table.take_answered(tag), nullptr);
}

TEST(SlotTable, AnAnswerToAnEarlierSubmissionOfTheSlotIsRecognised) {
  SlotTable table(1);
  Slot& slot = table.take();
  const std::uint64_t first = slot.tag;
  ASSERT_EQ(table.take_answered(first), &slot);
  table.renew_tag(slot);
  const std::uint64_t second = slot.tag;
  EXPECT_EQ(table.take_answered(first), nullptr);
  ASSERT_EQ(table.take_answered(second), &slot);
  table.release(batch_of({&slot}));
  ASSERT_EQ(&table.take(), &slot);
  EXPECT_EQ(table.take_answered(first), nullptr);
  EXPECT_EQ(table.take_answered(second), nullptr);
}

TEST(SlotTable, TagsThatWereNeverGivenAreOfNoSlot) {
  SlotTable table(2);
  EXPECT_EQ(table.take_answered(0), nullptr);
  EXPECT_EQ(table.take_answered(1), nullptr);
  EXPECT_EQ(table.take_answered(7), nullptr);
  EXPECT_EQ(table.take_answered(std::numeric_limits<std::uint64_t>::max()), nullptr);
}

TEST(SlotTable, AnAbandonedSlotIsNeverUsedAgain) {
  SlotTable table(1);
  Slot& slot = table.take();
  const std::uint64_t tag = slot.tag;
  table.abandon(slot);
  EXPECT_EQ(table.in_flight(), 0);
  EXPECT_FALSE(table.has_free());
  EXPECT_EQ(table.take_answered(tag), nullptr);
}

TEST(SlotTable, FindsTheOldestInFlight) {
  SlotTable table(3);
  EXPECT_EQ(table.oldest_in_flight(), nullptr);
  Slot& late = table.take();
  late.started_ns = 30;
  Slot& early = table.take();
  early.started_ns = 10;
  EXPECT_EQ(table.oldest_in_flight(), &early);
  ASSERT_NE(table.take_answered(early.tag), nullptr);
  EXPECT_EQ(table.oldest_in_flight(), &late);
}

TEST(SlotTableDeathTest, NeedsASensibleDepth) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(SlotTable(0), "a queue depth of 0");
  EXPECT_DEATH(SlotTable(65537), "a queue depth of 65537");
}

}  // namespace
}  // namespace strata::io

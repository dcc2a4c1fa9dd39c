#include "offload/record_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "kernels/base/aligned_buffer.h"

namespace strata::offload {
namespace {

// A walk of turns that each open one to three records; a record is written before it is read.
std::vector<RecordAccess> random_walk(std::mt19937& random, int records, int turns) {
  std::vector<RecordAccess> walk;
  std::set<int> written;
  for (int turn = 0; turn < turns; ++turn) {
    std::set<int> opened;
    for (unsigned i = 0; i <= random() % 3; ++i) {
      const int record = static_cast<int>(random() % static_cast<unsigned>(records));
      if (!opened.insert(record).second) continue;
      RecordAccess access{turn, record, random() % 2 == 0, random() % 3 != 0};
      if (!written.contains(record)) access = {turn, record, false, true};
      if (!access.read && !access.write) access.read = true;
      if (access.write) written.insert(record);
      walk.push_back(access);
    }
  }
  return walk;
}

// One group of so many slots, all records being of one size.
RecordSlots slots_for(int records, int slots) {
  return {.groups = {RecordSlots::Group{kPageBytes, slots}},
          .group_of = std::vector<std::uint8_t>(static_cast<std::size_t>(records), 0)};
}

std::vector<std::int64_t> equal_sizes(int records) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(records), kPageBytes);
}

int slots_needed(const std::vector<RecordAccess>& walk, int records, int lookahead) {
  return plan_record_slots(walk, equal_sizes(records), lookahead, 0).count();
}

// Plays a schedule with version numbers for contents; the numbers a read sees are checked.
void play(const std::vector<ScheduledAccess>& schedule, int records, int slots) {
  constexpr int kGarbage = -1;
  std::vector<int> latest(static_cast<std::size_t>(records), kGarbage);
  std::vector<int> tier(static_cast<std::size_t>(records), kGarbage);
  struct Slot {
    int record = -1;
    int version = kGarbage;
  };
  std::vector<Slot> state(static_cast<std::size_t>(slots));
  int versions = 0;
  for (const ScheduledAccess& scheduled : schedule) {
    const RecordAccess& access = scheduled.access;
    const auto record = static_cast<std::size_t>(access.record);
    ASSERT_GE(scheduled.slot, 0);
    ASSERT_LT(scheduled.slot, slots);
    Slot& slot = state[static_cast<std::size_t>(scheduled.slot)];
    if (slot.record != access.record) slot = {access.record, kGarbage};
    if (scheduled.load) {
      EXPECT_TRUE(access.read);
      slot.version = tier[record];
    }
    if (access.read) {
      ASSERT_NE(latest[record], kGarbage);
      EXPECT_EQ(slot.version, latest[record]) << "turn " << access.turn << " record " << record;
    }
    if (access.write) slot.version = latest[record] = versions++;
    if (scheduled.store) {
      EXPECT_TRUE(access.write);
      tier[record] = slot.version;
    }
  }
}

// Records open in some turn and the `lookahead` before it, at most.
int most_open(const std::vector<RecordAccess>& walk, int lookahead) {
  std::size_t most = 1;
  for (int turn = 0; turn <= walk.back().turn; ++turn) {
    std::set<int> open;
    for (const RecordAccess& access : walk) {
      if (access.turn <= turn && access.turn >= turn - lookahead) open.insert(access.record);
    }
    most = std::max(most, open.size());
  }
  return static_cast<int>(most);
}

class RecordSchedule : public ::testing::TestWithParam<int> {};  // lookahead

TEST_P(RecordSchedule, EveryReadSeesTheLastWrite) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 300; ++trial) {
    const int records = 3 + trial % 8;
    const auto walk = random_walk(random, records, 30);
    const int slots = slots_needed(walk, records, GetParam()) + trial % 3;
    play(schedule_records(walk, slots_for(records, slots), GetParam()), records, slots);
  }
}

TEST_P(RecordSchedule, SlotsNeededAreThoseOpenAtOnce) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 100; ++trial) {
    const auto walk = random_walk(random, 8, 20);
    EXPECT_EQ(slots_needed(walk, 8, GetParam()), most_open(walk, GetParam()));
  }
}

// A slot that is loaded ahead, or written, was not used in the turns that may still be running.
TEST_P(RecordSchedule, ReplacesOnlySlotsOfEarlierTurns) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 100; ++trial) {
    const auto walk = random_walk(random, 9, 30);
    const int slots = slots_needed(walk, 9, GetParam());
    const auto schedule = schedule_records(walk, slots_for(9, slots), GetParam());
    for (std::size_t i = 0; i < schedule.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const bool replaced = schedule[j].slot == schedule[i].slot &&
                              schedule[j].access.record != schedule[i].access.record;
        if (replaced) {
          EXPECT_LT(schedule[j].access.turn, schedule[i].access.turn - GetParam());
        }
      }
    }
  }
}

TEST_P(RecordSchedule, NothingMovesThatNobodyNeeds) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 100; ++trial) {
    const auto walk = random_walk(random, 6, 30);
    const RecordSlots plenty = slots_for(6, 6 + GetParam());
    for (const ScheduledAccess& access : schedule_records(walk, plenty, GetParam())) {
      EXPECT_FALSE(access.load || access.store) << "every record has a slot";
    }
    const RecordSlots few = slots_for(6, slots_needed(walk, 6, GetParam()));
    const auto schedule = schedule_records(walk, few, GetParam());
    for (std::size_t i = 0; i < schedule.size(); ++i) {
      if (!schedule[i].store) continue;
      const bool loaded_later =
          std::any_of(schedule.begin() + static_cast<std::ptrdiff_t>(i) + 1, schedule.end(),
                      [&](const ScheduledAccess& later) {
                        return later.load && later.access.record == schedule[i].access.record;
                      });
      EXPECT_TRUE(loaded_later);
    }
  }
}

// Records of two sizes: each goes to slots of its size, and contents are right in both.
TEST_P(RecordSchedule, SmallRecordsHaveSlotsOfTheirOwn) {
  std::mt19937 random(8);
  for (int trial = 0; trial < 100; ++trial) {
    const auto walk = random_walk(random, 8, 30);
    const std::vector<std::int64_t> bytes = {25, 100'000, 24'000, 100, 25'000, 25'001, 60'000, 1};
    const std::set<int> large = {1, 5, 6};
    const RecordSlots slots = plan_record_slots(walk, bytes, GetParam(), trial % 2);
    const auto [of_large, of_small] = slots.groups;
    EXPECT_EQ(of_large.slot_bytes, 25 * kPageBytes);
    EXPECT_EQ(of_small.slot_bytes, 7 * kPageBytes);
    EXPECT_EQ(slots.bytes(), (25 * of_large.count + 7 * of_small.count) * kPageBytes);
    const auto schedule = schedule_records(walk, slots, GetParam());
    play(schedule, 8, slots.count());
    for (const ScheduledAccess& access : schedule) {
      const std::int64_t room = slots.slot_bytes(access.slot);
      EXPECT_EQ(room == of_large.slot_bytes, large.contains(access.access.record));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lookahead, RecordSchedule, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace strata::offload

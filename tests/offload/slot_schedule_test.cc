#include "offload/slot_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace strata::offload {
namespace {

std::vector<int> random_uses(std::mt19937& random, int units, std::size_t length) {
  std::vector<int> uses(length);
  for (int& unit : uses) unit = static_cast<int>(random() % static_cast<unsigned>(units));
  return uses;
}

std::size_t misses(const std::vector<ScheduledUse>& schedule) {
  return static_cast<std::size_t>(
      std::ranges::count_if(schedule, [](const ScheduledUse& use) { return !use.hit; }));
}

// Fewest misses of any replacement, by trying all contents that `slots` slots can have.
std::size_t fewest_misses(const std::vector<int>& uses, std::size_t slots) {
  std::map<std::set<int>, std::size_t> reached{{{}, 0}};
  for (const int unit : uses) {
    std::map<std::set<int>, std::size_t> next;
    const auto reach = [&](const std::set<int>& held, std::size_t cost) {
      const auto [entry, added] = next.try_emplace(held, cost);
      if (!added) entry->second = std::min(entry->second, cost);
    };
    for (const auto& [held, cost] : reached) {
      if (held.contains(unit)) {
        reach(held, cost);
        continue;
      }
      std::set<int> with = held;
      with.insert(unit);
      if (with.size() <= slots) reach(with, cost + 1);
      for (const int victim : held) {
        std::set<int> replaced = with;
        replaced.erase(victim);
        reach(replaced, cost + 1);
      }
    }
    reached = std::move(next);
  }
  return std::ranges::min_element(reached, {}, [](const auto& entry) { return entry.second; })
      ->second;
}

TEST(SlotSchedule, ASlotHoldsWhatTheScheduleSays) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const int units = 2 + trial % 6;
    const int prefetch = trial % 4;
    const int slots = prefetch + 1 + trial % 3;
    const std::vector<int> uses = random_uses(random, units, 40);
    std::vector<std::uint8_t> needs_slot(static_cast<std::size_t>(units), 1);
    needs_slot[0] = trial % 2 == 0;
    const auto schedule = schedule_slots(uses, needs_slot, slots, prefetch);
    ASSERT_EQ(schedule.size(), uses.size());
    std::vector<int> held(static_cast<std::size_t>(slots), -1);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const ScheduledUse& use = schedule[i];
      ASSERT_EQ(use.unit, uses[i]);
      if (needs_slot[static_cast<std::size_t>(use.unit)] == 0) {
        EXPECT_EQ(use.slot, -1);
        EXPECT_TRUE(use.hit);
        continue;
      }
      ASSERT_GE(use.slot, 0);
      ASSERT_LT(use.slot, slots);
      int& content = held[static_cast<std::size_t>(use.slot)];
      EXPECT_EQ(use.hit, content == use.unit);
      content = use.unit;
      EXPECT_EQ(std::ranges::count(held, use.unit), 1) << "one copy of a unit";
    }
  }
}

// Compute may still read the slots of the `prefetch` uses before the one that is fetched.
TEST(SlotSchedule, LeavesTheSlotsOfThePrefetchWindowAlone) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 300; ++trial) {
    const int prefetch = 1 + trial % 4;
    const std::vector<int> uses = random_uses(random, 7, 40);
    const auto schedule =
        schedule_slots(uses, std::vector<std::uint8_t>(7, 1), prefetch + 1 + trial % 2, prefetch);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      if (schedule[i].hit) continue;
      const std::size_t first = i - std::min(i, static_cast<std::size_t>(prefetch));
      for (std::size_t before = first; before < i; ++before) {
        EXPECT_NE(schedule[before].slot, schedule[i].slot) << before << " " << i;
      }
    }
  }
}

TEST(SlotSchedule, MissesAreTheFewestPossible) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    const int slots = 1 + trial % 3;
    const std::vector<int> uses = random_uses(random, 5, 12);
    const auto schedule = schedule_slots(uses, std::vector<std::uint8_t>(5, 1), slots, 0);
    EXPECT_EQ(misses(schedule), fewest_misses(uses, static_cast<std::size_t>(slots)));
  }
}

// Forward and back: the units at the turn are still there.
TEST(SlotSchedule, UnitsAtTheTurnStay) {
  const std::vector<int> uses{0, 1, 2, 3, 4, 4, 3, 2, 1, 0};
  const auto schedule = schedule_slots(uses, std::vector<std::uint8_t>(5, 1), 3, 0);
  EXPECT_EQ(misses(schedule), 7u);
  for (const std::size_t hit : {5, 6, 7}) EXPECT_TRUE(schedule[hit].hit) << hit;
}

}  // namespace
}  // namespace strata::offload

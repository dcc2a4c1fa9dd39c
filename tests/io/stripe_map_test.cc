#include "io/stripe_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace strata::io {
namespace {

using Rooms = std::vector<StripeShare>;

std::int64_t total_room(const Rooms& rooms) {
  std::int64_t stripes = 0;
  for (const StripeShare& room : rooms) stripes += room.stripes;
  return stripes;
}

Rooms random_rooms(std::mt19937_64& random) {
  Rooms rooms(1 + random() % 6);
  for (StripeShare& room : rooms) {
    room.weight = static_cast<std::int64_t>(1 + random() % 100);
    room.stripes = static_cast<std::int64_t>(random() % 300);
  }
  rooms[0].stripes += 1;
  return rooms;
}

std::vector<StripePlace> all_places(const StripeMap& map) {
  std::vector<StripePlace> places;
  for (std::int64_t stripe = 0; stripe < map.stripes(); ++stripe) {
    places.push_back(map.place(stripe));
  }
  return places;
}

// Of each directory among `count` stripes from `first`.
std::vector<double> counts(const std::vector<StripePlace>& places, std::size_t first,
                           std::size_t count, std::size_t directories) {
  std::vector<double> result(directories, 0);
  for (std::size_t i = first; i < first + count; ++i) {
    result[static_cast<std::size_t>(places[i].directory)] += 1;
  }
  return result;
}

// The stripes of each directory when all are to be written in the shortest time: everyone works
// until that time or until it is full.
std::vector<double> fastest_split(const Rooms& rooms, double stripes) {
  double low = 0;
  double high = stripes + 1;  // enough for a weight of 1
  std::vector<double> split(rooms.size());
  for (int i = 0; i < 200; ++i) {
    const double time = (low + high) / 2;
    double total = 0;
    for (std::size_t d = 0; d < rooms.size(); ++d) {
      split[d] = std::min(static_cast<double>(rooms[d].stripes),
                          time * static_cast<double>(rooms[d].weight));
      total += split[d];
    }
    (total < stripes ? low : high) = time;
  }
  return split;
}

TEST(StripeMap, EveryStripeHasAPlaceOfItsOwnAndNoDirectoryHasAGap) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const Rooms rooms = random_rooms(random);
    const auto stripes =
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(total_room(rooms) + 1));
    const StripeMap map(rooms, stripes);
    std::vector<std::int64_t> next(rooms.size(), 0);
    for (const StripePlace& place : all_places(map)) {
      ASSERT_EQ(place.index, next[static_cast<std::size_t>(place.directory)]++) << round;
    }
    for (std::size_t d = 0; d < rooms.size(); ++d) {
      EXPECT_EQ(map.shares()[d].stripes, next[d]);
      EXPECT_EQ(map.shares()[d].weight, rooms[d].weight);
      EXPECT_LE(next[d], rooms[d].stripes);
    }
  }
}

TEST(StripeMap, AllRoomCanBeUsed) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 100; ++round) {
    const Rooms rooms = random_rooms(random);
    const StripeMap map(rooms, total_room(rooms));
    for (std::size_t d = 0; d < rooms.size(); ++d) {
      EXPECT_EQ(map.shares()[d].stripes, rooms[d].stripes);
    }
  }
}

// What a store's header keeps is enough to find its stripes again.
TEST(StripeMap, DealingAgainWithWhatEachHoldsGivesTheSamePlaces) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    const Rooms rooms = random_rooms(random);
    const StripeMap map(rooms, static_cast<std::int64_t>(
                                   random() % static_cast<std::uint64_t>(total_room(rooms) + 1)));
    EXPECT_EQ(all_places(StripeMap(map.shares(), map.stripes())), all_places(map)) << round;
  }
}

// The places are in the format of stores: they must not change. Worked out by hand.
TEST(StripeMap, DealsOneToTwoAsWrittenDown) {
  const std::vector<StripePlace> expected = {{1, 0},
                                             {0, 0},
                                             {1, 1},
                                             {1, 2},
                                             {0, 1},
                                             {1, 3},
                                             // Directory 1 is full: the rest is 0's.
                                             {0, 2},
                                             {0, 3}};
  EXPECT_EQ(all_places(StripeMap(Rooms{{100, 10}, {200, 4}}, 8)), expected);
}

// Rounds of 128 at most: the slowest directory takes at most 1/128 longer per directory that has
// to wait for a whole stripe, plus that one stripe.
TEST(StripeMap, IsAsFastAsAnySplitThatRoomAllows) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 200; ++round) {
    const Rooms rooms = random_rooms(random);
    const std::int64_t stripes = 1 + total_room(rooms) / 2;
    const StripeMap map(rooms, stripes);
    const std::vector<double> best = fastest_split(rooms, static_cast<double>(stripes));
    double best_time = 0;
    for (std::size_t d = 0; d < rooms.size(); ++d) {
      best_time = std::max(best_time, best[d] / static_cast<double>(rooms[d].weight));
    }
    for (std::size_t d = 0; d < rooms.size(); ++d) {
      const auto weight = static_cast<double>(rooms[d].weight);
      const double time = static_cast<double>(map.shares()[d].stripes) / weight;
      // Two stripes: one of rounding in its last round, one in the round before it filled up.
      EXPECT_LE(time, best_time * (1 + static_cast<double>(rooms.size()) / 128) + 2 / weight);
    }
  }
}

// Smooth weighted round robin keeps each directory within a stripe per rival of its proportion.
TEST(StripeMap, AnyRunOfStripesIsSpreadInProportion) {
  const Rooms rooms = {{7000, 100000}, {500, 100000}, {3500, 100000}, {7000, 100000}};
  constexpr double kTotalWeight = 18000;
  const std::vector<StripePlace> places = all_places(StripeMap(rooms, 2000));
  for (const std::size_t length : {1u, 3u, 10u, 64u, 500u}) {
    for (std::size_t first = 0; first + length <= places.size(); ++first) {
      const std::vector<double> found = counts(places, first, length, rooms.size());
      for (std::size_t d = 0; d < rooms.size(); ++d) {
        const double ideal =
            static_cast<double>(length) * static_cast<double>(rooms[d].weight) / kTotalWeight;
        ASSERT_LE(std::abs(found[d] - ideal), 3) << d << " in " << length << " from " << first;
      }
    }
  }
}

TEST(StripeMap, ADirectoryTooSlowForARoundIsUsedOnlyWhenOthersAreFull) {
  const StripeMap map(Rooms{{1000000, 10}, {1, 10}}, 15);
  EXPECT_EQ(map.shares()[0].stripes, 10);
  EXPECT_EQ(map.shares()[1].stripes, 5);
  EXPECT_EQ(map.place(10), (StripePlace{1, 0}));
}

TEST(StripeMap, RoomsMayBeHuge) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const StripeMap map(Rooms{{3, kHuge}, {1, kHuge}}, kHuge);
  EXPECT_EQ(map.shares()[0].stripes, kHuge / 4 * 3);
  EXPECT_EQ(map.place(kHuge - 1).index + 1,
            map.shares()[static_cast<std::size_t>(map.place(kHuge - 1).directory)].stripes);
}

TEST(StripeMapDeathTest, RefusesMoreStripesThanThereIsRoomFor) {
  EXPECT_DEATH(StripeMap(Rooms{{1, 3}, {1, 4}}, 8), "no room for 8 stripes");
  EXPECT_DEATH(StripeMap(Rooms{{1, 3}}, 3).place(3), "stripe 3 of 3");
}

}  // namespace
}  // namespace strata::io

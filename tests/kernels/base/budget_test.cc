#include "kernels/base/budget.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata {
namespace {

using test::error_text;
using test::mentions;

TEST(Budget, HoldsUntilTheReservationIsDestroyed) {
  Budget budget("host memory", 100);
  {
    const Reservation first = budget.reserve("weights", 60);
    const Reservation second = budget.reserve("moments", 40);
    EXPECT_EQ(budget.held_bytes(), 100);
  }
  EXPECT_EQ(budget.held_bytes(), 0);
  EXPECT_EQ(budget.peak_bytes(), 100);
  EXPECT_EQ(budget.capacity_bytes(), 100);
}

TEST(Budget, RefusesOneByteTooManyAndSaysWhatIsMissing) {
  Budget budget("device memory", 4096);
  const Reservation held = budget.reserve("slots", 4000);
  const std::string text = error_text<OutOfBudget>([&] { (void)budget.reserve("head chunk", 97); });
  EXPECT_TRUE(mentions(text, "device memory")) << text;
  EXPECT_TRUE(mentions(text, "head chunk")) << text;
  EXPECT_TRUE(mentions(text, "97 bytes")) << text;
  EXPECT_TRUE(mentions(text, "4000 of 4096 bytes")) << text;
  EXPECT_EQ(budget.held_bytes(), 4000) << "a refusal holds nothing";
  EXPECT_EQ(budget.reserve("head chunk", 96).bytes(), 96) << "what just fits is granted";
}

TEST(Budget, HugeRequestsDoNotWrapAround) {
  Budget budget("host memory", std::numeric_limits<std::int64_t>::max());
  const Reservation held = budget.reserve("a", 1);
  EXPECT_THROW((void)budget.reserve("b", std::numeric_limits<std::int64_t>::max()), OutOfBudget);
}

TEST(Budget, EntriesAreSummedByTagInOrderOfFirstReservation) {
  Budget budget("host memory", 1000);
  const Reservation first = budget.reserve("weights", 10);
  Reservation second = budget.reserve("moments", 20);
  const Reservation third = budget.reserve("weights", 5);
  ASSERT_EQ(budget.entries().size(), 2u);
  EXPECT_EQ(budget.entries()[0].tag, "weights");
  EXPECT_EQ(budget.entries()[0].bytes, 15);
  EXPECT_EQ(budget.entries()[1].bytes, 20);
  second = Reservation();
  ASSERT_EQ(budget.entries().size(), 1u) << "what nobody holds is not listed";
}

TEST(Budget, MovingAReservationHoldsItsBytesOnce) {
  Budget budget("host memory", 100);
  Reservation first = budget.reserve("a", 30);
  Reservation moved = std::move(first);
  EXPECT_EQ(moved.bytes(), 30);
  EXPECT_EQ(budget.held_bytes(), 30);
  moved = budget.reserve("b", 50);
  EXPECT_EQ(budget.held_bytes(), 50) << "what was assigned over is released";
}

TEST(Budget, ConcurrentReservationsNeverExceedTheCapacity) {
  constexpr std::int64_t kCapacity = 64;
  Budget budget("host memory", kCapacity);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        try {
          const Reservation held = budget.reserve("tile", 24);
        } catch (const OutOfBudget&) {  // expected now and then: four ask, two fit
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.held_bytes(), 0);
  EXPECT_LE(budget.peak_bytes(), kCapacity);
  EXPECT_GE(budget.peak_bytes(), 24);
}

}  // namespace
}  // namespace strata

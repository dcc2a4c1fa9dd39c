#include "kernels/base/aligned_buffer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/base/error.h"

namespace strata {
namespace {

TEST(AlignedBuffer, IsWholeZeroedPagesChargedInFull) {
  Budget budget("host memory", 3 * kPageBytes);
  const AlignedBuffer buffer(budget, "staging", 2 * kPageBytes + 1);
  EXPECT_EQ(buffer.bytes(), 3 * kPageBytes);
  EXPECT_EQ(budget.held_bytes(), 3 * kPageBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kPageBytes, 0u);
  EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + buffer.bytes(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(AlignedBuffer, IsResidentFromTheStart) {
  Budget budget("host memory", 1 << 24);
  const AlignedBuffer buffer(budget, "staging", 1 << 23);
  std::vector<unsigned char> residency(static_cast<std::size_t>(buffer.bytes() / kPageBytes));
  ASSERT_EQ(::mincore(buffer.data(), static_cast<std::size_t>(buffer.bytes()), residency.data()),
            0);
  EXPECT_TRUE(std::ranges::all_of(residency, [](unsigned char page) { return (page & 1) != 0; }));
}

TEST(AlignedBuffer, BeginsAtAHugePageWhenItHoldsOne) {
  constexpr std::int64_t kHugePageBytes = 1 << 21;
  Budget budget("host memory", 100 * kHugePageBytes);
  for (const std::int64_t extra : {std::int64_t{0}, kPageBytes, kHugePageBytes - kPageBytes}) {
    const AlignedBuffer small(budget, "moves the next one", 3 * kPageBytes);
    const AlignedBuffer buffer(budget, "staging", kHugePageBytes + extra);
    EXPECT_EQ(buffer.bytes(), kHugePageBytes + extra);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kHugePageBytes, 0u);
  }
}

TEST(AlignedBuffer, IsRefusedWhereTheRoundedSizeDoesNotFit) {
  Budget budget("host memory", kPageBytes + 1);
  EXPECT_THROW(AlignedBuffer(budget, "staging", kPageBytes + 1), OutOfBudget);
  EXPECT_EQ(budget.held_bytes(), 0);
}

TEST(AlignedBuffer, AMappingTheSystemRefusesGivesItsReservationBack) {
  constexpr std::int64_t kMoreThanAnAddressSpace = std::int64_t{1} << 60;
  Budget budget("host memory", kMoreThanAnAddressSpace);
  EXPECT_THROW(AlignedBuffer(budget, "staging", kMoreThanAnAddressSpace), Error);
  EXPECT_EQ(budget.held_bytes(), 0);
}

TEST(AlignedBuffer, MovesItsMemoryAndGivesItBackOnce) {
  Budget budget("host memory", 4 * kPageBytes);
  AlignedBuffer first(budget, "a", kPageBytes);
  std::byte* const data = first.data();
  AlignedBuffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(budget.held_bytes(), kPageBytes);
  second = AlignedBuffer(budget, "b", 2 * kPageBytes);
  EXPECT_EQ(budget.held_bytes(), 2 * kPageBytes);
  second = AlignedBuffer();
  EXPECT_EQ(budget.held_bytes(), 0);
}

TEST(AlignedBuffer, EmptyHoldsNothing) {
  Budget budget("host memory", 0);
  const AlignedBuffer buffer(budget, "none", 0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.bytes(), 0);
}

TEST(AlignedSpan, SubspansAreRelativeAndBounded) {
  Budget budget("host memory", 2 * kPageBytes);
  const AlignedBuffer buffer(budget, "staging", 2 * kPageBytes);
  const AlignedSpan inner = buffer.span(kPageBytes, kPageBytes).sub(512, 1024);
  EXPECT_EQ(inner.data(), buffer.data() + kPageBytes + 512);
  EXPECT_EQ(inner.bytes(), 1024);
  EXPECT_EQ(buffer.span(2 * kPageBytes, 0).bytes(), 0);
  EXPECT_DEATH((void)inner.sub(1, 1024), "check failed");
  EXPECT_DEATH((void)inner.sub(-1, 1), "check failed");
}

}  // namespace
}  // namespace strata

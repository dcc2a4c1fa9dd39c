// Re-sharding: every element is found again through its index in the unsharded unit, for any two
// numbers of ranks, and padding never leaks.
#include "engine/checkpoint/reshard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "kernels/base/bytes.h"
#include "offload/plan.h"

namespace strata::engine {
namespace {

using offload::StateDtypes;
using offload::StateKind;

constexpr std::int64_t kBlock = 8192;

// Shards as the plan pads them (docs/architecture.md): whole multiples of 4,096.
Sharding sharding(std::int64_t elements, int ranks, std::int64_t block = kBlock) {
  return {elements, round_up(ceil_div(elements, ranks), offload::kShardAlignmentElements), block};
}

// What element i of the unit is, as 16 bits that differ between neighbours.
std::uint16_t value_of(std::int64_t i) { return static_cast<std::uint16_t>(i * 40503 + 7); }
std::uint8_t code_of(std::int64_t i) { return static_cast<std::uint8_t>(1 + i * 31 % 251); }
float scale_of(std::int64_t group) { return static_cast<float>(group) + 0.25f; }

// A block of a shard, whose padding is garbage. Written by the formats of docs/optimizer.md, not by
// the code under test.
std::vector<std::byte> block_bytes(const Sharding& s, int rank, std::int64_t block, bool int8) {
  const std::int64_t count =
      std::min(s.block_elements, s.shard_elements - block * s.block_elements);
  const std::int64_t first = rank * s.shard_elements + block * s.block_elements;
  const auto is_padding = [&](std::int64_t i) { return first + i >= s.elements; };
  std::vector<std::byte> bytes;
  if (!int8) {
    bytes.resize(static_cast<std::size_t>(count) * 2);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint16_t value = is_padding(i) ? 0xDEAD : value_of(first + i);
      std::memcpy(bytes.data() + i * 2, &value, 2);
    }
    return bytes;
  }
  bytes.resize(static_cast<std::size_t>(count + round_up(count / 256 * 4, std::int64_t{4096})),
               std::byte{0xEE});
  for (std::int64_t i = 0; i < count; ++i) {
    bytes[static_cast<std::size_t>(i)] =
        std::byte{is_padding(i) ? std::uint8_t{0xDD} : code_of(first + i)};
  }
  for (std::int64_t group = 0; group < count / 256; ++group) {
    const float scale = is_padding(group * 256) ? -1.0f : scale_of((first + group * 256) / 256);
    std::memcpy(bytes.data() + count + group * 4, &scale, 4);
  }
  return bytes;
}

// The same with zeros for padding: what a new shard has to be.
std::vector<std::byte> expected_bytes(const Sharding& s, int rank, std::int64_t block, bool int8) {
  std::vector<std::byte> bytes = block_bytes(s, rank, block, int8);
  const std::int64_t count =
      std::min(s.block_elements, s.shard_elements - block * s.block_elements);
  const std::int64_t first = rank * s.shard_elements + block * s.block_elements;
  const auto real =
      static_cast<std::size_t>(std::clamp(s.elements - first, std::int64_t{0}, count));
  if (!int8) {
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(real) * 2, bytes.end(), std::byte{0});
    return bytes;
  }
  const auto codes = static_cast<std::size_t>(count);
  const std::size_t scales = (real + 255) / 256 * 4;
  for (std::size_t i = real; i < codes; ++i) bytes[i] = std::byte{0};
  for (std::size_t i = codes + scales; i < bytes.size(); ++i) bytes[i] = std::byte{0};
  return bytes;
}

// Old ranks, new ranks, elements.
class Reshard : public ::testing::TestWithParam<std::tuple<int, int, std::int64_t>> {};

TEST_P(Reshard, EveryElementComesToItsPlace) {
  const auto [old_ranks, new_ranks, elements] = GetParam();
  for (const bool int8 : {false, true}) {
    for (const std::int64_t new_block : {kBlock, 3 * kBlock}) {
      const Sharding from = sharding(elements, old_ranks);
      const Sharding to = sharding(elements, new_ranks, new_block);
      const StateDtypes dtypes{.moments = int8 ? MomentFormat::int8 : MomentFormat::bf16};
      for (int rank = 0; rank < new_ranks; ++rank) {
        std::vector<std::byte> memory(static_cast<std::size_t>(new_block) * 4);
        std::int64_t put = 0;
        ShardComposer composer(StateKind::moment1, dtypes, from, to, rank, memory,
                               [&](std::int64_t block, std::span<const std::byte> bytes) {
                                 EXPECT_EQ(block, put++);
                                 const auto expected = expected_bytes(to, rank, block, int8);
                                 EXPECT_TRUE(std::ranges::equal(bytes, expected))
                                     << "rank " << rank << ", block " << block;
                               });
        for (const ShardBlock& block : blocks_with(from, shard_range(to, rank))) {
          composer.add(block, block_bytes(from, block.shard, block.block, int8));
        }
        composer.finish();
        EXPECT_EQ(put, ceil_div(to.shard_elements, new_block));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    RanksAndSizes, Reshard,
    ::testing::Combine(::testing::Values(1, 3, 4, 7), ::testing::Values(1, 3, 4, 7),
                       // one short of a group, within a group, whole blocks, less than a shard each
                       ::testing::Values<std::int64_t>(100, 20'000 + 77, 65'536, 100'003)));

TEST(Reshard, OnlyBlocksThatOverlapAreAskedFor) {
  const Sharding four = sharding(4 * 16384, 4);  // two blocks a shard
  const Sharding two = sharding(4 * 16384, 2);
  const std::vector<ShardBlock> expected = {{2, 0}, {2, 1}, {3, 0}, {3, 1}};
  EXPECT_EQ(blocks_with(four, shard_range(two, 1)), expected);
  EXPECT_EQ(blocks_with(two, shard_range(four, 1)), (std::vector<ShardBlock>{{0, 2}, {0, 3}}));
  // A rank that has nothing but padding.
  EXPECT_TRUE(blocks_with(four, shard_range(sharding(100, 3), 2)).empty());
}

TEST(Reshard, AStateThatWasNotThereIsZeros) {
  const Sharding s = sharding(20'000, 2);
  std::vector<std::byte> memory(static_cast<std::size_t>(kBlock) * 4);
  std::int64_t zeros = 0;
  ShardComposer composer(StateKind::moment1, {}, s, s, 1, memory,
                         [&](std::int64_t, std::span<const std::byte> bytes) {
                           zeros += std::ranges::count(bytes, std::byte{0});
                         });
  composer.finish();
  EXPECT_EQ(zeros, s.shard_elements * 4);
}

}  // namespace
}  // namespace strata::engine

// Re-sharding: every element is found again through its index in the unsharded unit, for any two
// numbers of ranks, and padding never leaks.
#include "engine/checkpoint/reshard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "kernels/base/bytes.h"
#include "offload/plan.h"
#include "tests/engine/checkpoint/state_pattern.h"

namespace strata::engine {
namespace {

using offload::StateDtypes;
using offload::StateKind;
using testing::Padding;
using testing::StatePattern;

constexpr std::int64_t kBlock = 8192;

// Shards as the plan pads them (docs/architecture.md): whole multiples of 4,096.
Sharding sharding(std::int64_t elements, int ranks, std::int64_t block = kBlock) {
  return {elements, round_up(ceil_div(elements, ranks), offload::kShardAlignmentElements), block};
}

std::vector<std::byte> block_of(const Sharding& s, int rank, std::int64_t block,
                                const StatePattern& pattern, Padding padding) {
  const std::int64_t before = block * s.block_elements;
  return pattern.block(rank * s.shard_elements + before,
                       std::min(s.block_elements, s.shard_elements - before), padding);
}

// Old ranks, new ranks, elements.
class Reshard : public ::testing::TestWithParam<std::tuple<int, int, std::int64_t>> {};

TEST_P(Reshard, EveryElementComesToItsPlace) {
  const auto [old_ranks, new_ranks, elements] = GetParam();
  for (const MomentFormat format : {MomentFormat::f32, MomentFormat::bf16, MomentFormat::int8}) {
    for (const std::int64_t new_block : {kBlock, 3 * kBlock}) {
      const Sharding from = sharding(elements, old_ranks);
      const Sharding to = sharding(elements, new_ranks, new_block);
      const StateDtypes dtypes{.moments = format};
      const StatePattern pattern{3, StateKind::moment1, dtypes, elements};
      for (int rank = 0; rank < new_ranks; ++rank) {
        std::vector<std::byte> memory(static_cast<std::size_t>(new_block) * 4);
        std::int64_t put = 0;
        ShardComposer composer(StateKind::moment1, dtypes, from, to, rank, memory,
                               [&](std::int64_t block, std::span<const std::byte> bytes) {
                                 EXPECT_EQ(block, put++);
                                 const auto expected =
                                     block_of(to, rank, block, pattern, Padding::zeros);
                                 EXPECT_TRUE(std::ranges::equal(bytes, expected))
                                     << "rank " << rank << ", block " << block;
                               });
        for (const SourceBlock& block : blocks_with(from, shard_range(to, rank))) {
          composer.add(block, block_of(from, block.shard, block.block, pattern, Padding::garbage));
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
  const std::vector<SourceBlock> expected = {{2, 0}, {2, 1}, {3, 0}, {3, 1}};
  EXPECT_EQ(blocks_with(four, shard_range(two, 1)), expected);
  EXPECT_EQ(blocks_with(two, shard_range(four, 1)), (std::vector<SourceBlock>{{0, 2}, {0, 3}}));
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

// What outliving the run costs in a plan: slots on NVMe, staging in host memory, copies.
#include <gtest/gtest.h>

#include <string>

#include "offload/plan.h"
#include "tests/offload/small_plan.h"

namespace strata::offload {
namespace {

using testing::kUnits;
using testing::placed;
using testing::plan_of;
using testing::small_input;

constexpr int kFrozen = 1;

PlanInput durable(PlanInput input, Durability durability) {
  input.durability = durability;
  return input;
}

std::int64_t bytes_tagged(const Plan& plan, Tier tier, const std::string& tag) {
  std::int64_t bytes = 0;
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.tier == tier && buffer.tag == tag) bytes += buffer.bytes;
  }
  return bytes;
}

std::int64_t shard_elements(const Plan& plan) {
  std::int64_t sum = 0;
  for (const UnitPlan& unit : plan.units) sum += unit.shard_elements;
  return sum;
}

// 12 bytes per parameter and slot: w, rem, m, v; a frozen unit has 4 bytes and one slot.
TEST(PlanDurability, SlotsAreChargedWhereStateDoesNotLiveAnyway) {
  for (const Tier tier : {Tier::device, Tier::host, Tier::nvme}) {
    for (const auto& [durability, slots] :
         {std::pair(Durability::none, 0), std::pair(Durability::clean_mark, 1),
          std::pair(Durability::commits, 2)}) {
      PlanInput input = durable(placed(tier, Tier::device), durability);
      input.units[kFrozen].frozen = true;
      const Plan plan = plan_of(input);
      const std::int64_t frozen = plan.units[kFrozen].shard_elements;
      const std::int64_t trained = shard_elements(plan) - frozen;
      const std::int64_t all = slots * 12 * trained + (slots > 0 ? 4 * frozen : 0);
      const std::int64_t live = tier == Tier::nvme ? 12 * trained + 4 * frozen : 0;
      EXPECT_EQ(bytes_tagged(plan, Tier::nvme, kCheckpointSlotsTag), slots > 0 ? all - live : 0);
    }
  }
}

// By hand: the table has 32 bytes, 8 of live bits and a checksum for each block of the shards (5,
// 3, 3, 3 and 1) in four kinds, in one page; with it a superblock's page. A block of a moment is
// the longest: 4,096 elements in f32.
TEST(PlanDurability, StagingHoldsACommitTableASuperblockAndFourBlocks) {
  for (const Durability durability : {Durability::clean_mark, Durability::commits}) {
    const Plan plan = plan_of(durable(small_input(), durability));
    EXPECT_LE(32 + 8 + (5 + 3 + 3 + 3 + 1) * 4 * 8, 4096);
    EXPECT_EQ(plan.commit_metadata_bytes(), 4096 + 4096);
    EXPECT_EQ(plan.checkpoint_staging_bytes(), 4096 + 4096 + 4 * 4096 * 4);
    EXPECT_EQ(bytes_tagged(plan, Tier::host, kCheckpointStagingTag),
              plan.checkpoint_staging_bytes());
    EXPECT_GT(bytes_tagged(plan, Tier::host, kChecksumsTag), 0) << "of state in host memory, too";
  }
  const Plan plan = plan_of(small_input());
  EXPECT_EQ(plan.checkpoint_staging_bytes(), 0);
  EXPECT_EQ(plan.commit_copy_bytes() + plan.commit_metadata_bytes(), 0);
}

TEST(PlanDurability, ACommitCopiesWhatIsUpdatedOutsideTheStorage) {
  PlanInput input = durable(placed(Tier::nvme, Tier::device), Durability::commits);
  input.units[kFrozen].frozen = true;
  EXPECT_EQ(plan_of(input).commit_copy_bytes(), 0);
  const auto place = [&](StateKind kind, Tier tier) {
    input.placement.states[static_cast<std::size_t>(kind)] = tier;
  };
  place(StateKind::weights, Tier::device);
  place(StateKind::moment1, Tier::host);
  place(StateKind::gradients, Tier::host);  // do not last
  const Plan plan = plan_of(input);
  EXPECT_EQ(plan.commit_copy_bytes(),
            (2 + 4) * (shard_elements(plan) - plan.units[kFrozen].shard_elements));
}

// Neither what a step moves nor where anything lives, given room for the staging.
TEST(PlanDurability, AStepMovesTheSameBytes) {
  for (const Tier tier : {Tier::host, Tier::nvme}) {
    const Plan none = plan_of(placed(tier, Tier::nvme));
    const Plan commits = plan_of(durable(placed(tier, Tier::nvme), Durability::commits));
    EXPECT_EQ(commits.nvme_read_bytes(), none.nvme_read_bytes());
    EXPECT_EQ(commits.nvme_written_bytes(), none.nvme_written_bytes());
    for (std::size_t u = 0; u < kUnits; ++u) EXPECT_EQ(commits.units[u].tiers, none.units[u].tiers);
  }
}

TEST(PlanDurability, AShortfallSaysWhatIsEnough) {
  PlanInput input = durable(placed(Tier::nvme, Tier::nvme), Durability::commits);
  input.host_memory_bytes = 10 * kKiB;
  const PlanResult refusal = make_plan(input);
  ASSERT_FALSE(refusal.fits);
  input.host_memory_bytes = refusal.shortfall.needed_bytes;
  const PlanResult result = make_plan(input);
  ASSERT_TRUE(result.fits);
  EXPECT_LE(result.plan.total_bytes(Tier::host), input.host_memory_bytes);
  --input.host_memory_bytes;
  EXPECT_FALSE(make_plan(input).fits);
}

}  // namespace
}  // namespace strata::offload

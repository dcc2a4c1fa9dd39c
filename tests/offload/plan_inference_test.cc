// The plan of a model that is only read: its weights, what they pass through, and nothing else.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kernels/base/aligned_buffer.h"
#include "offload/plan.h"
#include "tests/offload/small_plan.h"

namespace strata::offload {
namespace {

using testing::kUnits;
using testing::plan_of;
using testing::small_input;

// Two records that layers take turns with, as an evaluation does.
PlanInput inference_input(Dtype weights = Dtype::bf16) {
  PlanInput input = small_input();
  input.dtypes.content = StateContent::weights;
  input.dtypes.weights = weights;
  input.uses.resize(kUnits);
  input.record_walk.clear();
  for (int turn = 0; turn < kUnits; ++turn) {
    if (turn > 0) input.record_walk.push_back({turn, (turn - 1) % 2, true, false});
    input.record_walk.push_back({turn, turn % 2, false, true});
  }
  input.backward_turn = kUnits;
  input.record_bytes = {5000, 5000};
  return input;
}

std::set<std::string> tags(const Plan& plan, Tier tier) {
  std::set<std::string> tags;
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.tier == tier) tags.insert(buffer.tag);
  }
  return tags;
}

std::int64_t weight_bytes(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const UnitPlan& unit : plan.units) bytes += plan.shard_bytes(unit, StateKind::weights);
  return bytes;
}

using Tags = std::set<std::string>;

TEST(PlanInference, HoldsWeightsAlone) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
    const Plan plan = plan_of(inference_input(dtype));
    EXPECT_EQ(tags(plan, Tier::host), (Tags{"weights"}));
    EXPECT_EQ(tags(plan, Tier::device), (Tags{"workspace", "gathered units", "activations"}));
    // By hand: shards of 20,480, three of 12,288 and one of 4,096 elements.
    EXPECT_EQ(plan.total_bytes(Tier::host), (20480 + 3 * 12288 + 4096) * bytes_of(dtype));
  }
}

TEST(PlanInference, WeightsThatFitNoMemoryPassThroughStagingOnTheWayToNvme) {
  PlanInput input = inference_input();
  input.placement.states.fill(Tier::nvme);
  const Plan plan = plan_of(input);
  EXPECT_EQ(tags(plan, Tier::host), (Tags{"weight staging", kLoadingStagingTag, kChecksumsTag}));
  EXPECT_EQ(tags(plan, Tier::nvme), (Tags{"weights"}));
  EXPECT_EQ(plan.total_bytes(Tier::nvme), weight_bytes(plan));
  // Four blocks of 4,096 elements.
  EXPECT_EQ(loading_staging_bytes(plan), 4 * 4096 * 2);
}

// One pass reads every weight once, but for what is in a slot still, and writes nothing.
TEST(PlanInference, OnePassReadsTheWeightsAndWritesNothing) {
  PlanInput input = inference_input();
  input.placement.states.fill(Tier::nvme);
  const Plan plan = plan_of(input);
  EXPECT_EQ(plan.nvme_read_bytes(), weight_bytes(plan));
  EXPECT_EQ(plan.nvme_written_bytes(), 0);
  EXPECT_EQ(plan.phase(Phase::forward).optimizer_bytes, 0);
  EXPECT_EQ(plan.phase(Phase::backward).bytes(Link::from_device), 0);
}

TEST(PlanInference, TakesLessThanTrainingAndFitsExactlyItsBytes) {
  PlanInput input = inference_input();
  input.placement.states.fill(Tier::nvme);
  const Plan plan = plan_of(input);
  input.device_memory_bytes = plan.total_bytes(Tier::device);
  input.host_memory_bytes = plan.total_bytes(Tier::host);
  EXPECT_TRUE(make_plan(input).fits);
  for (std::int64_t* const budget : {&input.device_memory_bytes, &input.host_memory_bytes}) {
    PlanInput smaller = input;
    (budget == &input.device_memory_bytes ? smaller.device_memory_bytes
                                          : smaller.host_memory_bytes) -= kPageBytes;
    const PlanResult result = make_plan(smaller);
    EXPECT_FALSE(result.fits);
    EXPECT_EQ(result.shortfall.tier,
              budget == &input.device_memory_bytes ? Tier::device : Tier::host);
    EXPECT_EQ(result.shortfall.needed_bytes, *budget);
  }
  PlanInput training = small_input();
  training.placement.states.fill(Tier::nvme);
  EXPECT_LT(plan.total_bytes(Tier::host), plan_of(training).total_bytes(Tier::host));
}

}  // namespace
}  // namespace strata::offload

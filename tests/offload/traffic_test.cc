// Traffic and its ledger, and what a plan says that a step moves, in bytes worked out by hand.
#include "offload/traffic.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "tests/offload/small_plan.h"

namespace strata::offload {
namespace {

using testing::placed;
using testing::plan_of;

TEST(Traffic, SumsByLinkAndAddsAndSubtracts) {
  Traffic one;
  one.add(Link::nvme_read, MovedKind::weights, 3);
  one.add(Link::nvme_read, MovedKind::activations, 4);
  one.add(Link::to_device, MovedKind::batch, 5);
  EXPECT_EQ(one.bytes(Link::nvme_read), 7);
  EXPECT_EQ(one.bytes(Link::nvme_written), 0);
  Traffic two = one;
  two += one;
  EXPECT_EQ(two.bytes(Link::nvme_read, MovedKind::activations), 8);
  two -= one;
  EXPECT_EQ(two, one);
  int visited = 0;
  one.for_each([&](Link link, MovedKind kind, std::int64_t bytes) {
    EXPECT_EQ(bytes, one.bytes(link, kind));
    ++visited;
  });
  EXPECT_EQ(visited, 3);
}

TEST(Traffic, LinksAndKindsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (int l = 0; l < kLinks; ++l) {
    names.insert(name_of(static_cast<Link>(l)));
    names.insert(key_of(static_cast<Link>(l)));
  }
  for (int k = 0; k < kMovedKinds; ++k) names.insert(name_of(static_cast<MovedKind>(k)));
  EXPECT_EQ(names.size(), 2 * kLinks + kMovedKinds);
}

TEST(Ledger, CountsByAccountFromAnyThread) {
  constexpr int kThreads = 4;
  constexpr int kTransfers = 1000;
  Ledger ledger;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kTransfers; ++i) {
          ledger.add(Account::pass, Link::to_device, MovedKind::weights, 2);
          ledger.add(Account::update, Link::nvme_written, MovedKind::moment2, 3);
        }
      });
    }
  }
  Traffic passes;
  passes.add(Link::to_device, MovedKind::weights, 2 * kThreads * kTransfers);
  Traffic updates;
  updates.add(Link::nvme_written, MovedKind::moment2, 3 * kThreads * kTransfers);
  EXPECT_EQ(ledger.total(Account::pass), passes);
  EXPECT_EQ(ledger.total(Account::update), updates);
  EXPECT_EQ(ledger.total(Account::commit), Traffic());
  passes += updates;
  EXPECT_EQ(ledger.total(), passes);
}

std::int64_t shard_elements(const Plan& plan) {
  std::int64_t elements = 0;
  for (const UnitPlan& unit : plan.units) elements += unit.shard_elements;
  return elements;
}

// Gradients on the device come to the host to be summed, and go back: with two passes a partial
// sum, f32, and the final gradient, for which the update comes.
TEST(PlanTraffic, GradientsOnTheDeviceTravelTwice) {
  PlanInput input = placed(Tier::device, Tier::device);
  for (UnitSize& unit : input.units) unit.gradient_contributions = 1;
  input.passes = 2;
  const Plan plan = plan_of(input);
  const Traffic step = plan.step_traffic();
  const std::int64_t elements = shard_elements(plan);
  EXPECT_EQ(step.bytes(Link::from_device, MovedKind::gradients), (2 + 1 + 1) * 4 * elements);
  EXPECT_EQ(step.bytes(Link::to_device, MovedKind::gradients), (1 + 1) * 4 * elements);
}

// A shard on the device is copied to its place among the others' within device memory.
TEST(PlanTraffic, WeightsOnTheDeviceOfSeveralRanksComeFromNoHost) {
  PlanInput input = placed(Tier::device, Tier::device);
  input.world_size = 2;
  input.update = UpdateTime::in_backward;
  const Plan plan = plan_of(input);
  const Traffic step = plan.step_traffic();
  // Of the update alone.
  EXPECT_EQ(step.bytes(Link::to_device, MovedKind::weights), 2 * shard_elements(plan));
  EXPECT_GT(step.bytes(Link::gathered, MovedKind::weights), 0);
}

TEST(PlanTraffic, ASmallerLastPassMovesItsOwnRecords) {
  PlanInput input = placed(Tier::host, Tier::host);
  input.passes = 3;
  const Traffic full = plan_of(input).step_traffic();
  input.passes = 2;
  const Traffic less = plan_of(input).step_traffic();
  input.passes = 3;
  input.last_pass.emplace();  // of no micro-batch
  const Traffic empty = plan_of(input).step_traffic();
  for (const Link link : {Link::to_device, Link::from_device}) {
    EXPECT_EQ(empty.bytes(link, MovedKind::activations), less.bytes(link, MovedKind::activations));
    EXPECT_EQ(empty.bytes(link, MovedKind::weights), full.bytes(link, MovedKind::weights));
  }
}

TEST(PlanTraffic, TheBatchGoesInAndItsLossComesOut) {
  PlanInput input = placed(Tier::host, Tier::device);
  input.batch_bytes = 1600;
  input.result_bytes = 8;
  const Plan plan = plan_of(input);
  EXPECT_EQ(plan.phase(Phase::forward).moved.bytes(Link::to_device, MovedKind::batch), 1600);
  EXPECT_EQ(plan.phase(Phase::backward).moved.bytes(Link::from_device, MovedKind::batch), 8);
}

}  // namespace
}  // namespace strata::offload

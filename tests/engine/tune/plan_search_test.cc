// The search finds what an invented machine is fast with, keeps to budgets and to what was given,
// and what it returns can be had again from its command line.
#include "engine/tune/plan_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/tune/candidates.h"
#include "engine/tune/command_text.h"
#include "tests/engine/tune/tiny_search.h"
#include "tests/support/error_text.h"

namespace strata::test {
namespace {

using engine::RankedPlan;
using engine::Variation;
using offload::StateKind;
using offload::Tier;

std::int64_t held_bytes(const RankedPlan& plan, StateKind kind, Tier tier) {
  std::int64_t bytes = 0;
  for (const offload::UnitPlan& unit : plan.setup.plan.units) {
    if (unit.tier(kind) == tier) bytes += plan.setup.plan.shard_bytes(unit, kind);
  }
  return bytes;
}

TEST(PlanSearch, ASlowDriveIsNotUsedWhereMemoryHoldsEverything) {
  const auto plans = tiny_search({"--nvme", "x", "--vary", "none"}, {.drive_bytes_per_s = 1e6});
  EXPECT_EQ(plans.front().setup.plan.nvme_read_bytes(), 0);
  EXPECT_EQ(plans.front().setup.plan.nvme_written_bytes(), 0);
}

TEST(PlanSearch, ASlowLinkKeepsActivationsOnTheDevice) {
  const std::vector<std::string> memory = {"--device-memory", "128MiB", "--host-memory", "128MiB"};
  const RankedPlan best = tiny_search(memory, {.link_bytes_per_s = 1e6}, 1).front();
  EXPECT_EQ(best.setup.plan.activations, Tier::device);
  EXPECT_EQ(held_bytes(best, StateKind::moment1, Tier::device), 0);  // which the cores update
}

TEST(PlanSearch, WithLittleMemoryTheDriveHoldsTheRestAndEveryPlanFits) {
  const std::int64_t device = 16 * kMiB;
  const std::int64_t host = 16 * kMiB;
  // 2.4 million parameters, 29 MiB of state.
  const auto plans = tiny_search(
      {"--model", "gpt2:layers=12,hidden=128,heads=2,context=32", "--nvme", "x", "--device-memory",
       "16MiB", "--host-memory", "16MiB", "--chunk-size", "16KiB", "--vary", "none"},
      {}, 5);
  EXPECT_GT(plans.front().setup.plan.total_bytes(Tier::nvme), 0);
  for (const RankedPlan& plan : plans) {
    EXPECT_LE(plan.setup.plan.total_bytes(Tier::device), device);
    EXPECT_LE(plan.setup.plan.total_bytes(Tier::host), host);
    EXPECT_EQ(plan.options.device_memory, device);
    EXPECT_EQ(plan.options.host_memory, host);
  }
}

TEST(PlanSearch, BudgetsThatAreFreeAreNoLargerThanThePlanNeeds) {
  for (const RankedPlan& plan : tiny_search({"--nvme", "x"}, {})) {
    const offload::Plan& held = plan.setup.plan;
    EXPECT_LT(held.device_memory_bytes - held.total_bytes(Tier::device), kMiB);
    EXPECT_LT(held.host_memory_bytes - held.total_bytes(Tier::host), kMiB);
  }
}

TEST(PlanSearch, BudgetsOfADeviceWithItsOwnMemoryAreCutToo) {
  engine::SearchPlace place = tiny_place();
  place.device_bytes = kGiB;
  for (const RankedPlan& plan : tiny_search({"--nvme", "x"}, {}, 3, place)) {
    const offload::Plan& held = plan.setup.plan;
    EXPECT_LT(held.device_memory_bytes - held.total_bytes(Tier::device), kMiB);
    EXPECT_LT(held.host_memory_bytes - held.total_bytes(Tier::host), kMiB);
  }
}

TEST(PlanSearch, WhatIsGivenStays) {
  const std::vector<std::string> given = {"--nvme",        "x",    "--place",       "moments=nvme",
                                          "--activations", "host", "--prefetch",    "1",
                                          "--recompute",   "on",   "--micro-batch", "2",
                                          "--pass",        "1",    "--chunk-size",  "1MiB"};
  for (const RankedPlan& plan : tiny_search(given, {.drive_bytes_per_s = 1e6}, 5)) {
    EXPECT_GT(held_bytes(plan, StateKind::moment1, Tier::nvme), 0);
    EXPECT_EQ(held_bytes(plan, StateKind::moment1, Tier::host), 0);
    EXPECT_EQ(plan.setup.plan.activations, Tier::host);
    EXPECT_EQ(plan.options.prefetch, 1);
    EXPECT_TRUE(plan.options.recompute);
    EXPECT_EQ(plan.setup.batch.micro_batch, 2);
    EXPECT_EQ(plan.setup.batch.pass_size, 1);
    EXPECT_EQ(plan.options.chunk_size, kMiB);
    EXPECT_TRUE(engine::changed_bits(tiny_options(given), plan.options).empty());
  }
}

TEST(PlanSearch, BitsChangeOnlyWherePermitted) {
  const InventedMachine batched{.micro_batch_s = 1e-2};  // one micro-batch is much faster than four
  const std::vector<std::string> nvme = {"--nvme", "x"};
  const auto free = tiny_search(nvme, batched, 1);
  EXPECT_EQ(free.front().setup.batch.micro_batch, 4);
  EXPECT_EQ(engine::changed_bits(tiny_options(nvme), free.front().options),
            std::vector<std::string>{"micro-batch"});
  const auto bound = tiny_search(nvme, batched, 1, tiny_place(), Variation::none);
  EXPECT_EQ(bound.front().setup.batch.micro_batch, 1);
  EXPECT_EQ(bound.front().options.moments, "f32");

  const auto formats =
      tiny_search({"--nvme", "x", "--vary", "moments,grad-dtype", "--place", "all=nvme"},
                  {.drive_bytes_per_s = 1e6}, 1);
  EXPECT_NE(formats.front().options.moments, "f32");
  EXPECT_EQ(formats.front().options.grad_dtype, "bf16");
}

TEST(PlanSearch, ThePlansShownDiffer) {
  const auto plans = tiny_search({"--nvme", "x"}, {}, 10);
  std::set<std::string> shapes;
  for (const RankedPlan& plan : plans) shapes.insert(engine::outline_text(plan.setup));
  EXPECT_GT(plans.size(), 1U);
  EXPECT_EQ(shapes.size(), plans.size());
}

// Half a percent counts as the same, and then less is written or held.
TEST(PlanSearch, WhatIsShownIsRankedByWhatIsShown) {
  const auto plans = tiny_search({"--nvme", "x"}, {.drive_bytes_per_s = 1e8}, 10);
  const auto needs = [](const RankedPlan& plan) {
    const offload::Plan& held = plan.setup.plan;
    return std::tuple(held.nvme_written_bytes(),
                      held.total_bytes(Tier::device) + held.total_bytes(Tier::host));
  };
  for (std::size_t i = 0; i < plans.size(); ++i) {
    for (std::size_t later = i + 1; later < plans.size(); ++later) {
      const double ratio = plans[later].prediction.step_s / plans[i].prediction.step_s;
      EXPECT_GE(1.005 * ratio, 1);
      if (ratio <= 1) EXPECT_LE(needs(plans[i]), needs(plans[later]));
      const bool same_reads =
          plans[i].setup.plan.nvme_read_bytes() == plans[later].setup.plan.nvme_read_bytes();
      EXPECT_FALSE(ratio == 1 && same_reads && needs(plans[i]) == needs(plans[later]));
    }
  }
  EXPECT_GT(plans.size(), 1U);
  EXPECT_GE(plans.front().options.prefetch, 5);  // where the invented machine waits least
}

TEST(PlanSearch, NoPlanIsBetterThanTheBestThatIsShown) {
  const InventedMachine machine{.drive_bytes_per_s = 1e8, .link_bytes_per_s = 1e9};
  const engine::StepModel model = machine.model();
  const engine::SearchPlace place = tiny_place();
  const std::vector<std::string> options = {"--nvme",        "x",     "--device-memory", "8MiB",
                                            "--host-memory", "12MiB", "--prefetch",      "2",
                                            "--chunk-size",  "16KiB"};
  const auto space =
      engine::make_search_space(tiny_options(options), place, Variation::as_options_say);
  double shortest_s = 1e9;
  engine::Candidates(space, place)
      .for_each([&](const engine::Candidate&, const engine::RunSetup& setup) {
        shortest_s = std::min(shortest_s, model.predict(setup).step_s);
      });
  const RankedPlan best = std::move(engine::search_plans(space, place, model, 1).front());
  EXPECT_LE(best.prediction.step_s, 1.005 * shortest_s);
}

TEST(PlanSearch, TheCommandOfAPlanMakesThePlan) {
  for (const char* memory : {"12MiB", "64MiB"}) {
    const auto plans =
        tiny_search({"--nvme", "x", "--device-memory", "8MiB", "--host-memory", memory,
                     "--chunk-size", "16KiB", "--lr", "0.001", "--no-decay", "wpe.*"},
                    {}, 5);
    for (const RankedPlan& plan : plans) {
      std::vector<std::string> words = engine::train_words(plan.options);
      EXPECT_EQ(words.front(), "train");
      words.erase(words.begin());
      const engine::Options again =
          engine::parse_options({"train", "", engine::CommandKind::train}, words);
      const engine::RunSetup setup = engine::make_run_setup(again, {}, {}, kTinyBlock);
      EXPECT_EQ(engine::shape_text(setup), engine::shape_text(plan.setup));
      EXPECT_EQ(setup.plan.prefetch, plan.setup.plan.prefetch);
      EXPECT_EQ(setup.plan.chunk_elements, plan.setup.plan.chunk_elements);
      for (const Tier tier : {Tier::device, Tier::host, Tier::nvme}) {
        EXPECT_EQ(setup.plan.total_bytes(tier), plan.setup.plan.total_bytes(tier));
      }
    }
  }
}

TEST(PlanSearch, WithoutADirectoryNothingLiesOnNvme) {
  engine::SearchPlace place = tiny_place();
  place.storage_bytes = 0;
  for (const RankedPlan& plan : tiny_search({}, {.drive_bytes_per_s = 1e15}, 5, place)) {
    EXPECT_EQ(plan.setup.plan.total_bytes(Tier::nvme), 0);
  }
}

TEST(PlanSearch, SaysWhatIsMissingWhereNothingFits) {
  EXPECT_TRUE(mentions(
      error_text<engine::PlanDoesNotFit>([] {
        tiny_search({"--nvme", "x", "--device-memory", "16KiB", "--host-memory", "16MiB"}, {});
      }),
      "device memory is short by"));
  engine::SearchPlace place = tiny_place();
  place.storage_bytes = kMiB;
  EXPECT_TRUE(mentions(error_text<ConfigError>([&] {
                         tiny_search({"--nvme", "x", "--place", "all=nvme"}, {}, 1, place);
                       }),
                       "1 MiB is free"));
}

TEST(PlanSearch, MicroBatchesThatDoNotFitAreNotToBeMeasured) {
  const engine::SearchPlace place = tiny_place();
  const auto sizes = [&](const char* memory) {
    const auto space = engine::make_search_space(
        tiny_options({"--nvme", "x", "--device-memory", memory, "--host-memory", "32MiB"}), place,
        Variation::as_options_say);
    std::vector<std::int64_t> sizes;
    for (const auto& setup : engine::feasible_micro_batches(space, place)) {
      sizes.push_back(setup.batch.micro_batch);
    }
    return sizes;
  };
  EXPECT_EQ(sizes("64MiB"), (std::vector<std::int64_t>{1, 2, 4}));
  EXPECT_LT(sizes("7MiB").size(), 3U);
}

}  // namespace
}  // namespace strata::test

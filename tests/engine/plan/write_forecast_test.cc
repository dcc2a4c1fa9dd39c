// What checkpoints write is part of what a run will write.
#include "engine/plan/write_forecast.h"

#include <gtest/gtest.h>

#include "tests/support/engine_run.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::mentions;

RunSetup setup_of(const std::string& place, std::optional<CheckpointInterval> interval,
                  std::vector<std::string> lr_scale = {}) {
  Options options;
  options.model = "gpt2:layers=2,hidden=32,heads=2,context=32";
  options.device_memory = 32 * kMiB;
  options.host_memory = 32 * kMiB;
  options.place = place;
  options.activations = "device";
  options.lr_scale = std::move(lr_scale);
  if (interval) {
    options.run = "run";
    options.checkpoint_every = interval;
  }
  const auto comm = comm::make_single_rank_communicator();
  return test::make_setup(options, *comm);
}

std::int64_t shard_elements(const RunSetup& setup, bool frozen) {
  std::int64_t elements = 0;
  for (const offload::UnitPlan& unit : setup.plan.units) {
    if (unit.frozen == frozen) elements += unit.shard_elements;
  }
  return elements;
}

std::string text_of(const WriteForecast& forecast, std::int64_t steps) {
  return forecast_text(forecast, steps, 0, 1, {});
}

// Working weight, remainder and two moments, 12 bytes per parameter, copied from host memory, and a
// commit's own pages: a table of less than 4,096 bytes and a superblock.
TEST(WriteForecast, CheckpointsCopyWhatLivesInMemory) {
  const RunSetup setup = setup_of("all=host", CheckpointInterval{3, 0});
  const WriteForecast forecast = forecast_writes(setup, 0);
  EXPECT_EQ(forecast.step_bytes, 0);
  EXPECT_EQ(forecast.commit_bytes, 12 * shard_elements(setup, false) + 2 * 4096);
  EXPECT_EQ(forecast.commits(10), 4) << "after steps 3, 6, 9 and 10";
  EXPECT_EQ(forecast.total_bytes(10, 0), forecast.start_bytes + 4 * forecast.commit_bytes);
  EXPECT_TRUE(mentions(text_of(forecast, 10), "in each of 4 checkpoints")) << text_of(forecast, 10);
}

TEST(WriteForecast, CheckpointsOfStateOnNvmeWriteTheirTableOnly) {
  const WriteForecast forecast = forecast_writes(setup_of("all=nvme", CheckpointInterval{1, 0}), 0);
  EXPECT_EQ(forecast.commit_bytes, 2 * 4096);
  EXPECT_GT(forecast.step_bytes, 0);
}

TEST(WriteForecast, OfCheckpointsByTimeTheLastIsCounted) {
  const WriteForecast forecast =
      forecast_writes(setup_of("all=host", kDefaultCheckpointInterval), 0);
  EXPECT_EQ(forecast.commits(1000), 1);
  EXPECT_TRUE(mentions(text_of(forecast, 9), "in the last checkpoint")) << text_of(forecast, 9);
}

TEST(WriteForecast, WithoutCheckpointsARunIsCopiedOnceAtItsEnd) {
  const RunSetup setup = setup_of("all=host", CheckpointInterval{});
  const WriteForecast forecast = forecast_writes(setup, 0);
  EXPECT_EQ(setup.plan.durability, offload::Durability::clean_mark);
  EXPECT_EQ(forecast.commits(50), 1);
  EXPECT_TRUE(mentions(text_of(forecast, 9), "at the end")) << text_of(forecast, 9);
}

TEST(WriteForecast, ARunWithoutAFolderWritesNoCheckpoint) {
  const WriteForecast forecast = forecast_writes(setup_of("all=host", std::nullopt), 0);
  EXPECT_EQ(forecast.total_bytes(50, 3), 0);
}

// Its working weight and remainder, 4 bytes per parameter.
TEST(WriteForecast, AFrozenUnitIsWrittenOnce) {
  const RunSetup setup = setup_of("all=host", CheckpointInterval{1, 0}, {"h.1.*=0"});
  ASSERT_GT(shard_elements(setup, true), 0);
  const WriteForecast forecast = forecast_writes(setup, 0);
  const std::int64_t measuring = measuring_bytes(setup.plan.total_bytes(offload::Tier::nvme));
  EXPECT_EQ(forecast.start_bytes - measuring, 4 * shard_elements(setup, true));
  EXPECT_EQ(forecast.commit_bytes, 12 * shard_elements(setup, false) + 2 * 4096);
}

}  // namespace
}  // namespace strata::engine

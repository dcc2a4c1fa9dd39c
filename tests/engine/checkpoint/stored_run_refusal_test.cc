// What a run does not go on from: stores that are out of reach, in use, or damaged.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "engine/checkpoint/opened_store.h"
#include "tests/engine/checkpoint/stored_run_fixture.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using offload::StateKind;
using offload::Tier;
using test::mentions;
using namespace testing;

using StoredRunRefusal = StoredRunTest;

TEST_F(StoredRunRefusal, AShardThatNobodyReachesIsRefusedByName) {
  make_run({.world_size = 2});
  std::filesystem::remove(file_of(kRunId, 1));
  const std::string text = migrate(pointer_to(kRunId, 2), kNewId, {}, 20, Drives::shared);
  for (const std::string& part : {std::string("rank 1"), std::string("host1"), directory(kRunId, 1),
                                  std::string("--resume-from")}) {
    EXPECT_TRUE(mentions(text, part)) << text;
  }
}

// As `cp -a RUN COPY` leaves it, without the store and with it.
TEST_F(StoredRunRefusal, ACopyOfARunsFolderLeavesTheStoreOfTheRunAlone) {
  make_run({});
  const std::string run = directory(kRunId, 0);
  const std::string copy = folder_.make_folder("copy");
  replace_store_pointer(run, pointer_to(kRunId, 1));
  const auto abandon = [&](const std::string& run_folder) {
    return failure_on(1, [&](comm::Communicator& comm) {
      StoredRun(pointer_to(kRunId, 1), {{}, {}, {}, run_folder}, comm).remove();
    });
  };
  const std::string text = abandon(copy);
  for (const std::string& part : {"it is the store of run " + run, copy + " is a copy of that",
                                  std::string("--resume-from")}) {
    EXPECT_TRUE(mentions(text, part)) << text;
  }
  const std::string file = file_of(kRunId, 0);
  const std::string file_of_copy = copy + "/" + std::filesystem::path(file).filename().string();
  std::filesystem::copy_file(file, file_of_copy);
  EXPECT_EQ(abandon(copy), "");
  EXPECT_FALSE(std::filesystem::exists(file_of_copy));
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_EQ(abandon(run), "");
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(StoredRunRefusal, AFailureOfTheRunEndsVerificationAndMigration) {
  make_run({.world_size = 2});
  FailureLatch failure;
  failure.set(std::make_exception_ptr(ConfigError("stopped by SIGINT")));
  const StoredRunOptions options{{}, {}, {}, {}, &failure};
  std::string text = failure_on(2, [&](comm::Communicator& comm) {
    StoredRun(pointer_to(kRunId, 2), options, comm).free_dead_slots();
  });
  EXPECT_EQ(text, "stopped by SIGINT");
  text = failure_on(2, [&](comm::Communicator& comm) {
    StoredRun old(pointer_to(kRunId, 2), options, comm);
    RankOfRun now({.world_size = 2}, comm.rank(), nullptr);
    now.volume = old.take_volume();
    now.start();
    old.filler(now.workers)->fill(*now.store, *now.access, now.staging.span());
  });
  EXPECT_EQ(text, "stopped by SIGINT");
  std::filesystem::create_directory(directory(kNewId, 0));
  text = failure_on(1, [&](comm::Communicator& comm) {
    StoredRun old(pointer_to(kRunId, 2), options, comm);
    RankOfRun now({}, 0, kNewId, directory(kNewId, 0));
    old.filler(now.workers)->fill(*now.store, *now.access, now.staging.span());
  });
  EXPECT_EQ(text, "stopped by SIGINT");
}

TEST_F(StoredRunRefusal, AStoreInUseIsRefused) {
  make_run({});
  const store::StoredShard other({file_of(kRunId, 0)}, io::VolumeAccess::exclusive, {}, nullptr);
  const std::string text = migrate(pointer_to(kRunId, 1), kNewId, {}, 20, Drives::shared);
  EXPECT_TRUE(mentions(text, file_of(kRunId, 0))) << text;
}

TEST_F(StoredRunRefusal, WhoReadsAStoreMayDoSoBesideOthers) {
  make_run({});
  const store::StoredShard other({file_of(kRunId, 0)}, io::VolumeAccess::shared, {}, nullptr);
  EXPECT_EQ(failure_on(1,
                       [&](comm::Communicator& comm) {
                         OpenedStore reader(pointer_to(kRunId, 1), {}, {}, {}, comm);
                         reader.share();
                         EXPECT_EQ(reader.commit()->step, 20);
                       }),
            "");
}

TEST_F(StoredRunRefusal, DamageIsNamedAndTheOtherCommitOfferedIfItIsIntact) {
  make_run({.world_size = 3});
  damage(1, 0, StateKind::moment1, 0);
  for (const Drives drives : {Drives::shared, Drives::local}) {
    const std::string text = migrate(pointer_to(kRunId, 3), kNewId, {.world_size = 4}, 20, drives);
    for (const std::string& part :
         {std::string("checkpoint of step 20 is damaged"), std::string("moment1 of table.weight ["),
          file_of(kRunId, 1) + " at offset", std::string("step 10 is intact"),
          std::string("--resume-step 10")}) {
      EXPECT_TRUE(mentions(text, part)) << text;
    }
  }
  damage(2, 1, StateKind::weights, 1);
  const std::string text =
      migrate(pointer_to(kRunId, 3), kNewId, {.world_size = 4}, 20, Drives::shared);
  EXPECT_TRUE(mentions(text, "step 10 is damaged too")) << text;
  EXPECT_TRUE(mentions(text, "--resume-from")) << text;
}

TEST_F(StoredRunRefusal, DamageInPlaceIsFoundInWhatIsResidentToo) {
  make_run({});
  damage(0, 2, StateKind::moment2, 0);
  for (const Tier tier : {Tier::nvme, Tier::host}) {
    const std::string text = failure_on(1, [&](comm::Communicator& comm) {
      StoredRun old(pointer_to(kRunId, 1), {}, comm);
      RankOfRun now({.world_size = 1, .dtypes = {}, .tier = tier}, 0, nullptr);
      now.volume = old.take_volume();
      now.start();
      old.filler(now.workers)->fill(*now.store, *now.access, now.staging.span());
    });
    EXPECT_TRUE(mentions(text, "moment2 of b.weight [")) << text;
    EXPECT_TRUE(mentions(text, "--resume-step 10")) << text;
  }
}

TEST_F(StoredRunRefusal, AWantedStepIsChosenOrRefused) {
  make_run({});
  failure_on(1, [&](comm::Communicator& comm) {
    EXPECT_EQ(StoredRun(pointer_to(kRunId, 1), {{}, {}, 10}, comm).commit()->step, 10);
  });
  const std::string text = failure_on(1, [&](comm::Communicator& comm) {
    StoredRun(pointer_to(kRunId, 1), {{}, {}, 15}, comm);
  });
  EXPECT_TRUE(mentions(text, "--resume-step 15")) << text;
  EXPECT_TRUE(mentions(text, "20 and 10")) << text;
}

TEST_F(StoredRunRefusal, ADamagedTableOfTheNewestCommitIsNotPassedOver) {
  make_run({});
  std::int64_t table = 0;
  {
    store::StoredShard shard({file_of(kRunId, 0)}, io::VolumeAccess::shared, {}, nullptr);
    table = shard.header().layout().commit_tables[0];  // of superblock 2
  }
  overwrite(file_of(kRunId, 0), table + 40);
  const auto open = [&](comm::Communicator& comm) { StoredRun(pointer_to(kRunId, 1), {}, comm); };
  std::string text = failure_on(1, open);
  EXPECT_TRUE(mentions(text, "copy 0")) << text;
  EXPECT_TRUE(mentions(text, "--resume-step 10")) << text;
  damage(0, 0, StateKind::weights, 0);  // the only valid one now
  text = failure_on(1, open);
  EXPECT_TRUE(mentions(text, "step 10 is damaged too")) << text;
}

TEST_F(StoredRunRefusal, AnUnreadableSuperblockIsNotPassedOver) {
  make_run({});
  overwrite(file_of(kRunId, 0), 8192 + 40);
  const std::string text =
      failure_on(1, [&](comm::Communicator& comm) { StoredRun(pointer_to(kRunId, 1), {}, comm); });
  EXPECT_TRUE(mentions(text, "copy 0: the superblock is damaged")) << text;
  EXPECT_TRUE(mentions(text, "--resume-step 10")) << text;
  EXPECT_EQ(failure_on(1,
                       [&](comm::Communicator& comm) {
                         const StoredRun old(pointer_to(kRunId, 1), {{}, {}, 10}, comm);
                         EXPECT_EQ(old.commit()->step, 10);
                       }),
            "");
}

TEST_F(StoredRunRefusal, DeadSlotsOfADamagedCommitAreNotFreed) {
  make_run({});
  damage(0, 1, StateKind::weights, 0);
  const std::string text = failure_on(1, [&](comm::Communicator& comm) {
    StoredRun(pointer_to(kRunId, 1), {}, comm).free_dead_slots();
  });
  EXPECT_TRUE(mentions(text, "--resume-step 10")) << text;
  failure_on(1, [&](comm::Communicator& comm) {
    EXPECT_EQ(StoredRun(pointer_to(kRunId, 1), {{}, {}, 10}, comm).commit()->step, 10);
  });
}

TEST_F(StoredRunRefusal, AnotherFormatOfMomentsIsRefused) {
  make_run({});
  const std::string text =
      migrate(pointer_to(kRunId, 1), kNewId,
              {.world_size = 2, .dtypes = {.moments = MomentFormat::int8}}, 20, Drives::shared);
  EXPECT_TRUE(mentions(text, "--moments f32")) << text;
}

}  // namespace
}  // namespace strata::engine

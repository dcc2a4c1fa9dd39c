// Going on from a store: in place, on other numbers of ranks, from drives that not every rank
// reaches.
#include "engine/checkpoint/stored_run.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "tests/engine/checkpoint/stored_run_fixture.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using offload::Durability;
using offload::Tier;
using store::SuperblockKind;
using test::mentions;
using namespace testing;

TEST_F(StoredRunTest, InPlaceWhateverTheTiers) {
  for (const Tier tier : {Tier::nvme, Tier::host, Tier::device}) {
    make_run({.world_size = 2});
    const RunShape shape{.world_size = 2, .dtypes = {}, .tier = tier};
    EXPECT_EQ(
        failure_on(2,
                   [&](comm::Communicator& comm) {
                     StoredRun old(pointer_to(kRunId, 2), {}, comm);
                     ASSERT_TRUE(old.commit());
                     EXPECT_EQ(old.commit()->step, 20);
                     EXPECT_EQ(old.commit()->rank, comm.rank());
                     EXPECT_EQ(old.commit()->snapshot, RankOfRun::snapshot_of(20));
                     RankOfRun now(shape, comm.rank(), nullptr);
                     ASSERT_TRUE(old.fits(now.manifest, {directory(kRunId, comm.rank())}));
                     now.volume = old.take_volume();
                     now.start();
                     old.filler(now.workers)->fill(*now.store, *now.access, now.staging.span());
                     now.expect_state(20, Padding::garbage);
                     // What comes next leaves that commit's slots alone.
                     EXPECT_TRUE(now.store->is_protected(0));
                     EXPECT_EQ(now.store->live_slot(0), 1);
                     now.log->continue_after(&*old.commit());
                     if (tier != Tier::nvme) return;
                     now.update(30);
                     now.commit(30);
                   }),
        "");
    if (tier == Tier::nvme) {
      EXPECT_EQ(migrate(pointer_to(kRunId, 2), kNewId, {}, 30, Drives::shared), "");
    }
    std::filesystem::remove_all(directory(kRunId, 0));
    std::filesystem::remove_all(directory(kRunId, 1));
  }
}

TEST_F(StoredRunTest, FitsOnlyWhereEveryRankHasItsOwn) {
  make_run({.world_size = 2});
  const auto fits = [&](int ranks, const RunShape& shape, const std::string& more) {
    bool all = true;
    EXPECT_EQ(failure_on(ranks,
                         [&](comm::Communicator& comm) {
                           StoredRun old(pointer_to(kRunId, 2), {}, comm);
                           const store::Manifest manifest = manifest_of(plan_of(shape));
                           std::vector<std::string> directories = {directory(kRunId, comm.rank())};
                           if (comm.rank() == 1 && !more.empty()) directories.push_back(more);
                           if (!old.fits(manifest, directories)) all = false;
                         }),
              "");
    return all;
  };
  EXPECT_TRUE(fits(2, {.world_size = 2}, ""));
  EXPECT_FALSE(fits(2, {.world_size = 2}, folder_.path()));
  EXPECT_FALSE(fits(1, {.world_size = 1}, ""));
  EXPECT_FALSE(fits(2, {.world_size = 2, .dtypes = {.moments = MomentFormat::int8}}, ""));
  EXPECT_FALSE(fits(2, {.world_size = 2, .durability = Durability::clean_mark}, ""));
}

struct Format {
  const char* name;
  offload::StateDtypes dtypes;
};
class StoredRunFormats : public StoredRunTest, public ::testing::WithParamInterface<Format> {};

TEST_P(StoredRunFormats, OneToFourToThreeToOneRanks) {
  const offload::StateDtypes dtypes = GetParam().dtypes;
  std::string run_id = kRunId;
  make_run({.world_size = 1, .dtypes = dtypes});
  int before = 1;
  for (const auto& [ranks, drives] :
       {std::pair{4, Drives::local}, std::pair{3, Drives::local}, std::pair{1, Drives::shared}}) {
    // A store on drives that are local to more ranks than go on is not reached.
    const Drives reached = ranks < before ? Drives::shared : drives;
    std::string next = run_id;
    std::ranges::rotate(next, next.begin() + 5);
    EXPECT_EQ(migrate(pointer_to(run_id, before), next, {.world_size = ranks, .dtypes = dtypes}, 20,
                      reached),
              "");
    for (int rank = 0; rank < before; ++rank) {
      EXPECT_FALSE(std::filesystem::exists(file_of(run_id, rank)));
    }
    run_id = next;
    before = ranks;
  }
  EXPECT_EQ(migrate(pointer_to(run_id, 1), kNewId,
                    {.world_size = 2, .dtypes = dtypes, .tier = Tier::host}, 20, Drives::shared),
            "");
}

INSTANTIATE_TEST_SUITE_P(Formats, StoredRunFormats,
                         ::testing::Values(Format{"split", {}},
                                           Format{"f32", {.weights = Dtype::f32}},
                                           Format{"bf16", {.moments = MomentFormat::bf16}},
                                           Format{"int8", {.moments = MomentFormat::int8}},
                                           Format{"lion", {.moment_count = 1}}),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST_F(StoredRunTest, ShardsThatARankDoesNotReachAreServed) {
  make_run({.world_size = 2});
  // Both ranks need blocks of both shards; each reaches its own.
  EXPECT_EQ(migrate(pointer_to(kRunId, 2), kNewId, {.world_size = 3}, 20, Drives::local), "");
}

TEST_F(StoredRunTest, ACommitThatNotAllRanksHaveIsNotChosen) {
  make_run({.world_size = 2});
  // Rank 0 lost power before rank 1 had its commit of step 30.
  failure_on(1, [&](comm::Communicator& comm) {
    StoredRun old(pointer_to(kRunId, 2), {}, comm);
    EXPECT_EQ(old.commit()->step, 20);
  });
  store::StoredShard shard({file_of(kRunId, 0)}, io::VolumeAccess::exclusive, {}, nullptr);
  const store::FoundCommits found = shard.commits();
  {
    RankOfRun run({.world_size = 2}, 0, shard.take_volume());
    run.start();
    run.store->adopt(found.valid[0].table);
    run.log->continue_after(&found.valid[0].superblock);
    run.update(30);
    run.commit(30);
  }
  EXPECT_EQ(migrate(pointer_to(kRunId, 2), kNewId, {}, 20, Drives::shared), "");
}

TEST_F(StoredRunTest, OneSlotGoesOnFromACleanMarkOnly) {
  const RunShape shape{
      .world_size = 2, .dtypes = {}, .tier = Tier::nvme, .durability = Durability::clean_mark};
  make_run(shape, 1);
  EXPECT_EQ(failure_on(2,
                       [&](comm::Communicator& comm) {
                         StoredRun old(pointer_to(kRunId, 2), {}, comm);
                         EXPECT_EQ(old.commit()->kind, SuperblockKind::clean_mark);
                         RankOfRun now(shape, comm.rank(), nullptr);
                         ASSERT_TRUE(old.fits(now.manifest, {directory(kRunId, comm.rank())}));
                         now.volume = old.take_volume();
                         now.start();
                         old.filler(now.workers)->fill(*now.store, *now.access, now.staging.span());
                         now.expect_state(10, Padding::garbage);
                         now.log->continue_after(&*old.commit());
                         now.commit(10, SuperblockKind::started);
                       }),
            "");
  const std::string text =
      failure_on(2, [&](comm::Communicator& comm) { StoredRun(pointer_to(kRunId, 2), {}, comm); });
  EXPECT_TRUE(mentions(text, "in the middle of a step, some time after step 10")) << text;
}

TEST_F(StoredRunTest, ARunThatNeverCommittedHasNoCommit) {
  make_run({.world_size = 2}, 0);
  EXPECT_EQ(failure_on(2,
                       [&](comm::Communicator& comm) {
                         EXPECT_FALSE(StoredRun(pointer_to(kRunId, 2), {}, comm).commit());
                       }),
            "");
}

std::int64_t bytes_on_disk(const std::string& file) {
  struct stat status {};
  EXPECT_EQ(::stat(file.c_str(), &status), 0);
  return status.st_blocks * 512;
}

TEST_F(StoredRunTest, DeadSlotsAreFreedOnceTheCommitIsVerified) {
  make_run({});
  const std::int64_t before = bytes_on_disk(file_of(kRunId, 0));
  EXPECT_EQ(failure_on(1,
                       [&](comm::Communicator& comm) {
                         StoredRun old(pointer_to(kRunId, 1), {}, comm);
                         const std::vector<DeadSpace> space = old.dead_space();
                         ASSERT_EQ(space.size(), 1);
                         const std::int64_t dead = space[0].bytes;
                         old.free_dead_slots();
                         const std::int64_t freed = before - bytes_on_disk(file_of(kRunId, 0));
                         EXPECT_GT(freed, 0);
                         EXPECT_LE(freed, dead);
                         EXPECT_GE(freed, dead * 9 / 10);  // blocks of the file system at the ends
                       }),
            "");
  // The commit before is forgotten, not half there.
  const std::string text = failure_on(1, [&](comm::Communicator& comm) {
    StoredRun(pointer_to(kRunId, 1), {{}, {}, 10}, comm);
  });
  EXPECT_TRUE(mentions(text, "it has those of 20")) << text;
  EXPECT_EQ(migrate(pointer_to(kRunId, 1), kNewId, {.world_size = 2}, 20, Drives::shared), "");
}

}  // namespace
}  // namespace strata::engine

// Going on from a store: in place, on other numbers of ranks, from drives that not every rank
// reaches, and what is refused.
#include "engine/checkpoint/stored_run.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "engine/step/agreement.h"
#include "tests/engine/checkpoint/synthetic_run.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thread_ranks.h"

namespace strata::engine {
namespace {

using offload::Durability;
using offload::StateKind;
using offload::Tier;
using store::SuperblockKind;
using test::mentions;
using test::TemporaryFolder;
using test::ThreadRanks;
using namespace testing;

// Which directories each rank looks in.
enum class Drives : std::uint8_t { shared, local };

class StoredRunTest : public ::testing::Test {
 protected:
  std::string directory(const std::string& run_id, int rank) const {
    return folder_.path(run_id.substr(0, 4) + "-" + std::to_string(rank));
  }
  std::string file_of(const std::string& run_id, int rank) const {
    return directory(run_id, rank) + "/" + store::store_file_name({run_id, rank, rank + 1, ""});
  }
  StorePointer pointer_to(const std::string& run_id, int world_size) const {
    StorePointer pointer{run_id, {}};
    for (int rank = 0; rank < world_size; ++rank) {
      pointer.ranks.push_back({"host" + std::to_string(rank), {directory(run_id, rank)}});
    }
    return pointer;
  }
  // The same where the directories are not what they were.
  static StorePointer moved(StorePointer pointer) {
    for (StoreOfRank& rank : pointer.ranks) rank.directories = {"/nowhere/at/all"};
    return pointer;
  }

  // A run of `steps` commits, ten steps each, of version s at step s.
  void make_run(const RunShape& shape, std::int64_t commits = 2) {
    for (int rank = 0; rank < shape.world_size; ++rank) {
      std::filesystem::create_directory(directory(kRunId, rank));
      RankOfRun run(shape, rank, kRunId, directory(kRunId, rank));
      for (std::int64_t c = 1; c <= commits; ++c) {
        if (shape.durability == Durability::clean_mark) {
          run.commit(10 * c - 10, SuperblockKind::started);
        }
        run.update(static_cast<std::uint64_t>(10 * c));
        run.commit(10 * c, shape.durability == Durability::clean_mark ? SuperblockKind::clean_mark
                                                                      : SuperblockKind::commit);
      }
    }
  }

  // Runs body(rank's communicator) on ranks; "" when none fails, otherwise what all threw.
  static std::string failure_on(int ranks, const std::function<void(comm::Communicator&)>& body) {
    const std::vector<std::exception_ptr> failures = ThreadRanks(ranks).run(body);
    const std::string text = what(failures.front());
    for (const std::exception_ptr& failure : failures) EXPECT_EQ(what(failure), text);
    return text;
  }
  static std::string what(const std::exception_ptr& failure) {
    if (!failure) return "";
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  // Goes on from `pointer` in a new store `run_id` of `shape`; the state has to be `version`.
  // Commits it and deletes the old one.
  std::string migrate(const StorePointer& pointer, const std::string& run_id, const RunShape& shape,
                      std::uint64_t version, Drives drives) {
    for (int rank = 0; rank < shape.world_size; ++rank) {
      std::filesystem::remove_all(directory(run_id, rank));
      std::filesystem::create_directory(directory(run_id, rank));
    }
    return failure_on(shape.world_size, [&](comm::Communicator& comm) {
      StoredRunOptions options;
      if (drives == Drives::local && comm.rank() < pointer.world_size()) {
        options.directories = {directory(pointer.run_id, comm.rank())};
      }
      StoredRun old(drives == Drives::local ? moved(pointer) : pointer, options, comm);
      RankOfRun now(shape, comm.rank(), run_id, directory(run_id, comm.rank()));
      ASSERT_FALSE(old.fits(now.manifest, {directory(run_id, comm.rank())}));
      old.filler(now.workers)->fill(*now.store, *now.access, now.staging.span());
      now.expect_state(version, Padding::zeros);
      if (shape.tier == Tier::nvme) now.commit(old.commit()->step);
      old.remove();
    });
  }

  // Changes a byte of a block of what is committed last, or before.
  void damage(int rank, int unit, StateKind kind, std::size_t commit) {
    store::StoredShard shard({file_of(kRunId, rank)}, io::VolumeAccess::exclusive, {}, nullptr);
    const auto live = shard.commits().valid.at(commit).table.live_slots[std::size_t(unit)];
    const auto& extent = *shard.manifest().units[std::size_t(unit)].extents[std::size_t(kind)];
    Budget budget("test", kPageBytes);
    AlignedBuffer page(budget, "page", kPageBytes);
    io::IoGroup group;
    shard.volume().read(extent.slot_offsets[live] + 8192, page.span(), group);
    group.wait();
    page.data()[5] ^= std::byte{1};
    shard.volume().write(extent.slot_offsets[live] + 8192, page.span(), group);
    group.wait();
  }
  void overwrite(const std::string& file, std::int64_t offset) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(offset).write("damage", 6);
  }

  TemporaryFolder folder_;
};

constexpr const char* kNewId = "ffeeddccbbaa99887766554433221100";

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

TEST_F(StoredRunTest, AShardThatNobodyReachesIsRefusedByName) {
  make_run({.world_size = 2});
  std::filesystem::remove(file_of(kRunId, 1));
  const std::string text = migrate(pointer_to(kRunId, 2), kNewId, {}, 20, Drives::shared);
  for (const std::string& part : {std::string("rank 1"), std::string("host1"), directory(kRunId, 1),
                                  std::string("--resume-from")}) {
    EXPECT_TRUE(mentions(text, part)) << text;
  }
}

TEST_F(StoredRunTest, AStoreInUseIsRefused) {
  make_run({});
  const store::StoredShard other({file_of(kRunId, 0)}, io::VolumeAccess::exclusive, {}, nullptr);
  const std::string text = migrate(pointer_to(kRunId, 1), kNewId, {}, 20, Drives::shared);
  EXPECT_TRUE(mentions(text, file_of(kRunId, 0))) << text;
}

TEST_F(StoredRunTest, DamageIsNamedAndTheOtherCommitOfferedIfItIsIntact) {
  make_run({.world_size = 3});
  damage(1, 0, StateKind::moment1, 0);
  for (const Drives drives : {Drives::shared, Drives::local}) {
    const std::string text = migrate(pointer_to(kRunId, 3), kNewId, {.world_size = 4}, 20, drives);
    for (const std::string& part :
         {std::string("commit of step 20 is damaged"), std::string("moment1 of table.weight ["),
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

TEST_F(StoredRunTest, DamageInPlaceIsFoundInWhatIsResidentToo) {
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

TEST_F(StoredRunTest, AWantedStepIsChosenOrRefused) {
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

TEST_F(StoredRunTest, ADamagedTableOfTheNewestCommitIsNotPassedOver) {
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

TEST_F(StoredRunTest, AnUnreadableSuperblockIsNotPassedOver) {
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
  EXPECT_TRUE(mentions(text, "stopped in the middle of step 11")) << text;
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
                         const std::int64_t dead = old.dead_bytes();
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

TEST_F(StoredRunTest, DeadSlotsOfADamagedCommitAreNotFreed) {
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

TEST_F(StoredRunTest, AnotherFormatOfMomentsIsRefused) {
  make_run({});
  const std::string text =
      migrate(pointer_to(kRunId, 1), kNewId,
              {.world_size = 2, .dtypes = {.moments = MomentFormat::int8}}, 20, Drives::shared);
  EXPECT_TRUE(mentions(text, "--moments f32")) << text;
}

}  // namespace
}  // namespace strata::engine

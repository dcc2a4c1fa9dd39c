#include "offload/store/stored_shard.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "kernels/base/error.h"
#include "offload/store/checksum.h"
#include "offload/store/shard_files.h"
#include "tests/offload/store/filled_store.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::store::testing {
namespace {

using io::VolumeAccess;
using test::mentions;

const io::EngineOptions kEngine{.kind = io::EngineKind::threads};

// A store in two directories, of rank 1 of 2, with commits of steps 10 and 20.
class StoredShardTest : public ::testing::Test {
 protected:
  StoredShardTest() {
    const auto volume = make_store(directories_, identity_, manifest_);
    commit_steps(*volume, manifest_, {10, 20});
    volume->keep();
  }

  std::vector<std::string> files() const {
    return StoredShard::find_files(directories_, identity_.run_id, 1);
  }
  StoredShard open(VolumeAccess access = VolumeAccess::shared) const {
    return StoredShard(files(), access, kEngine, nullptr);
  }
  template <typename E>
  std::string refusal(const std::vector<std::string>& paths) const {
    return test::error_text<E>([&] { StoredShard(paths, VolumeAccess::shared, kEngine, nullptr); });
  }
  void overwrite(const std::string& path, std::int64_t offset, const std::string& bytes) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset).write(bytes.data(), std::ssize(bytes));
  }

  const test::TemporaryFolder first_, second_, third_;
  const std::vector<std::string> directories_{first_.path(), second_.path()};
  const StoreIdentity identity_{new_run_id(), 1, 2, "/runs/seven"};
  const Manifest manifest_ = two_slot_manifest();
};

TEST_F(StoredShardTest, HasWhatWasCommitted) {
  const StoredShard shard = open();
  EXPECT_EQ(format_run_id(shard.header().run_id), identity_.run_id);
  EXPECT_EQ(shard.header().rank, 1);
  EXPECT_EQ(shard.manifest().units, manifest_.units);
  const FoundCommits commits = shard.commits();
  EXPECT_TRUE(commits.problems.empty());
  ASSERT_EQ(commits.valid.size(), 2u);
  EXPECT_EQ(commits.valid[0].superblock.step, 20);
  EXPECT_EQ(commits.valid[1].superblock.step, 10);
  const BlockReader reader = shard.blocks();
  const Staging staging;
  for (const FoundCommit& commit : commits.valid) {
    for_each_block(
        manifest_, [&](int unit, offload::StateKind kind, std::int64_t block, std::int64_t bytes) {
          EXPECT_EQ(reader.read(commit.table, unit, kind, block, staging.buffer.span()), bytes);
        });
  }
}

TEST_F(StoredShardTest, FilesAreFoundInAnyOrderAmongOthers) {
  std::vector<std::string> everywhere = {third_.path(), second_.path(), first_.path() + "/.",
                                         first_.path(), "/no/such/place"};
  const auto found = StoredShard::find_files(everywhere, identity_.run_id, 1);
  EXPECT_EQ(found.size(), 2u);
  const StoredShard shard(found, VolumeAccess::shared, kEngine, nullptr);
  EXPECT_EQ(shard.volume().device_path(0), first_.path() + "/.");
  EXPECT_EQ(shard.commits().valid.size(), 2u);
  // Nothing is there unless all is.
  EXPECT_TRUE(StoredShard::find_files({second_.path()}, identity_.run_id, 1).empty());
  EXPECT_TRUE(StoredShard::find_files(everywhere, identity_.run_id, 0).empty());
  EXPECT_TRUE(StoredShard::find_files(everywhere, new_run_id(), 1).empty());
}

TEST_F(StoredShardTest, AMissingFileIsNamed) {
  const auto text = refusal<ConfigError>({files()[1]});
  EXPECT_TRUE(mentions(text, "that of directory 0 is missing (here: " + files()[1])) << text;
  EXPECT_TRUE(mentions(text, store_file_name(identity_))) << text;
}

TEST_F(StoredShardTest, FilesOfDifferentStoresAreRefused) {
  const StoreIdentity other{new_run_id(), 1, 2, "/runs/eight"};
  leave_store(directories_, other, manifest_);
  const std::string stranger = second_.path(store_file_name(other));
  const auto text = refusal<FormatError>({files()[0], stranger});
  EXPECT_TRUE(mentions(text, stranger + ": it does not belong to the store of " + files()[0]))
      << text;
  std::filesystem::copy(files()[0], third_.path("copy"));
  const auto twice = refusal<FormatError>({files()[0], third_.path("copy")});
  EXPECT_TRUE(mentions(
      twice, "copy: it is the same part of the store as " + files()[0] + "; move the copy away"))
      << twice;
}

TEST_F(StoredShardTest, DamageIsNamedWithItsFile) {
  const std::vector<std::string> paths = files();
  overwrite(paths[1], 20, "x");
  const auto header = refusal<FormatError>(paths);
  EXPECT_TRUE(mentions(header, paths[1] + ": the header is damaged")) << header;
}

TEST_F(StoredShardTest, ADamagedManifestIsNamedWithItsFile) {
  overwrite(files()[0], open().header().layout().manifest + 5, "x");
  const auto text = refusal<FormatError>(files());
  EXPECT_TRUE(mentions(text, files()[0] + ": the manifest is damaged")) << text;
}

TEST_F(StoredShardTest, AnotherVersionIsNamed) {
  const std::string path = files()[0];
  std::string header = test::contents_of(path).substr(0, kHeaderBytes);
  header[8] = 2;
  const std::uint64_t sum = XXH3_64bits_withSeed(header.data(), kHeaderBytes - 8, 0x68656164);
  std::memcpy(header.data() + kHeaderBytes - 8, &sum, sizeof sum);
  overwrite(path, 0, header);
  const auto text = refusal<VersionError>({path, second_.path(store_file_name(identity_))});
  EXPECT_TRUE(mentions(text, path + ": a store of format version 2; this program reads 1")) << text;
}

TEST_F(StoredShardTest, ReadersShareAndALivingRunIsAlone) {
  {
    const StoredShard reader = open();
    EXPECT_NO_THROW(open());
    const auto text = test::error_text<ConfigError>([&] { open(VolumeAccess::exclusive); });
    EXPECT_TRUE(mentions(text, files()[0])) << text;
  }
  const StoredShard living = open(VolumeAccess::exclusive);
  const auto text = test::error_text<ConfigError>([&] { open(); });
  EXPECT_TRUE(mentions(text, files()[0])) << text;
  // Who only looks needs no lock.
  const FoundCommits commits = look_at_commits(read_shard_files(files()));
  ASSERT_EQ(commits.valid.size(), 2u);
  EXPECT_EQ(commits.valid[0].superblock.step, 20);
}

TEST_F(StoredShardTest, DeadSlotsAreGivenBackAndTheCommitStays) {
  const auto allocated = [&] {
    std::int64_t bytes = 0;
    for (const std::string& file : files()) {
      struct stat status;
      EXPECT_EQ(::stat(file.c_str(), &status), 0);
      bytes += status.st_blocks * 512;
    }
    return bytes;
  };
  StoredShard shard = open(VolumeAccess::exclusive);
  const FoundCommits commits = shard.commits();
  const CommitTable& table = commits.valid[0].table;
  std::int64_t live_bytes = 0;
  for_each_block(manifest_,
                 [&](int, offload::StateKind, std::int64_t, std::int64_t b) { live_bytes += b; });
  EXPECT_EQ(shard.dead_bytes(table), manifest_.data_bytes - live_bytes);
  const std::int64_t before = allocated();
  shard.punch_dead_slots(table);
  // The file system may give back whole pages only, of stripes that lie apart.
  EXPECT_LE(allocated(), before - shard.dead_bytes(table) * 9 / 10);
  const Staging staging;
  const BlockReader reader = shard.blocks();
  for_each_block(manifest_,
                 [&](int unit, offload::StateKind kind, std::int64_t block, std::int64_t bytes) {
                   EXPECT_EQ(reader.read(table, unit, kind, block, staging.buffer.span()), bytes);
                 });
}

TEST_F(StoredShardTest, ARunMayGoOnInTheVolume) {
  StoredShard shard = open(VolumeAccess::exclusive);
  const std::unique_ptr<io::Volume> volume = shard.take_volume();
  EXPECT_EQ(volume->capacity_bytes(), manifest_.data_bytes);
  EXPECT_EQ(volume->devices(), 2);
}

}  // namespace
}  // namespace strata::store::testing

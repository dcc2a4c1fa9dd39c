// What a CommitLog finds among superblocks that are not all right, and what it leaves when a drive
// fails. commit_log_crash_test.cc has crashes.
#include "offload/store/commit_log.h"

#include <gtest/gtest.h>

#include "io/fault_storage.h"
#include "kernels/base/error.h"
#include "tests/offload/store/little_store.h"
#include "tests/support/allocation_count.h"
#include "tests/support/error_text.h"

namespace strata::store::testing {
namespace {

using test::mentions;

class CommitLogTest : public ::testing::Test {
 protected:
  // Two commits, or clean marks, and in one slot the started mark between them: ids 0, 1, (2).
  explicit CommitLogTest(int slots = 2)
      : disk_(LittleStore::blank(slots)), store_(slots, disk_.open(), expected_) {
    store_.fill();
    store_.save(slots == 2 ? SuperblockKind::commit : SuperblockKind::clean_mark);
    if (slots == 1) store_.mark_started();
    store_.update(0);
    store_.save(slots == 2 ? SuperblockKind::commit : SuperblockKind::clean_mark);
  }

  FoundCommits read() { return store_.log().read(); }
  // As one who takes the store for another.
  FoundCommits read_as(const FileHeader& header) {
    return CommitLog(store_.volume(), store_.volume().file(0), header, store_.manifest(),
                     staging_.buffer.span())
        .read();
  }
  // Pages of the file of directory 0, from and to page_.
  void read_page(std::int64_t offset_bytes) {
    io::IoGroup group;
    store_.volume().file(0).read(offset_bytes, page_, group);
    group.wait();
  }
  void write_page(std::int64_t offset_bytes) {
    io::IoGroup group;
    store_.volume().file(0).write(offset_bytes, page_, group);
    group.wait();
  }
  void flip_bit(std::int64_t offset_bytes) {
    const std::int64_t page = offset_bytes / kPageBytes * kPageBytes;
    read_page(page);
    page_.data()[offset_bytes - page] ^= std::byte{1};
    write_page(page);
  }
  static std::vector<int> ids_of(const FoundCommits& found) {
    std::vector<int> ids;
    for (const FoundCommit& commit : found.valid) ids.push_back(id_of(commit));
    return ids;
  }

  // docs/store-format.md, "A file".
  static constexpr std::int64_t kCopy0 = 8192;
  static constexpr std::int64_t kCopy1 = 12288;

  Expectations expected_;
  io::CrashDisk disk_;
  LittleStore store_;
  Staging staging_;
  const AlignedSpan page_ = staging_.buffer.span(0, kPageBytes);
};

TEST_F(CommitLogTest, FindsBothCommitsNewestFirst) {
  const FoundCommits found = read();
  EXPECT_EQ(ids_of(found), (std::vector<int>{1, 0}));
  EXPECT_TRUE(found.problems.empty());
  EXPECT_EQ(found.valid[0].superblock.sequence, 2);
  EXPECT_EQ(found.valid[0].superblock.rank, store_.header().rank);
  EXPECT_EQ(found.valid[0].superblock.run_id, store_.header().run_id);
  EXPECT_EQ(found.valid[0].table.live_slots, (std::vector<std::uint8_t>{1, 0, 0}));
  for (const FoundCommit& commit : found.valid) store_.expect_whole(commit);
}

TEST_F(CommitLogTest, ANewStoreHasNone) {
  Expectations expected;
  io::CrashDisk disk(LittleStore::blank(2));
  LittleStore store(2, disk.open(), expected);
  const FoundCommits found = store.log().read();
  EXPECT_TRUE(found.valid.empty());
  EXPECT_TRUE(found.problems.empty());
}

TEST_F(CommitLogTest, ADamagedSuperblockIsAProblemAndTheOtherCounts) {
  flip_bit(kCopy0 + 700);  // copy 0: sequence 2
  const FoundCommits found = read();
  EXPECT_EQ(ids_of(found), std::vector<int>{0});
  ASSERT_EQ(found.problems.size(), 1u);
  EXPECT_TRUE(mentions(found.problems[0], "crash disk 0, copy 0: the superblock is damaged"))
      << found.problems[0];
  EXPECT_TRUE(found.without_table.empty());
}

TEST_F(CommitLogTest, ADamagedTableLeavesItsSuperblockWithoutOne) {
  flip_bit(store_.header().layout().commit_tables[0] + 40);
  const FoundCommits found = read();
  EXPECT_EQ(ids_of(found), std::vector<int>{0});
  ASSERT_EQ(found.without_table.size(), 1u);
  EXPECT_EQ(found.without_table[0].sequence, 2);
  ASSERT_EQ(found.problems.size(), 1u);
  EXPECT_TRUE(mentions(found.problems[0], "copy 0: the commit table is not the one"));
}

// As after a crash while commit 3 was made: its table is there, its superblock is not.
TEST_F(CommitLogTest, ATableOfAnotherSequenceIsNone) {
  read_page(kCopy1);
  store_.save(SuperblockKind::commit);
  write_page(kCopy1);
  const FoundCommits found = read();
  EXPECT_EQ(ids_of(found), std::vector<int>{1});
  ASSERT_EQ(found.without_table.size(), 1u);
  EXPECT_EQ(found.without_table[0].sequence, 1);
}

TEST_F(CommitLogTest, SuperblocksOfOthersAreProblemsByName) {
  FileHeader header = store_.header();
  header.run_id = parse_run_id("ffeeddccbbaa99887766554433221100");
  FoundCommits found = read_as(header);
  EXPECT_TRUE(found.valid.empty());
  ASSERT_EQ(found.problems.size(), 2u);
  EXPECT_TRUE(mentions(found.problems[1],
                       "copy 1: the superblock belongs to store 00112233445566778899aabbccddeeff, "
                       "not ffeeddccbbaa99887766554433221100"))
      << found.problems[1];

  header = store_.header();
  header.rank = 1;
  found = read_as(header);
  EXPECT_TRUE(found.valid.empty());
  EXPECT_TRUE(mentions(found.problems.at(0), "the superblock's rank is 0, not 1"))
      << found.problems.at(0);

  header = store_.header();
  header.world_size = 3;
  found = read_as(header);
  EXPECT_TRUE(found.valid.empty());
  EXPECT_TRUE(mentions(found.problems.at(0), "the superblock's world size is 2, not 3"))
      << found.problems.at(0);
}

TEST_F(CommitLogTest, GoingOnErasesWhatIsNotKept) {
  const FoundCommits found = read();
  store_.adopt(&found.valid[1]);
  EXPECT_EQ(ids_of(read()), std::vector<int>{0});
  store_.adopt(nullptr);
  EXPECT_TRUE(read().valid.empty());
  EXPECT_TRUE(read().problems.empty());
}

TEST_F(CommitLogTest, SequenceNumbersGoOnAfterWhatIsKept) {
  const FoundCommits found = read();
  for (const int kept : {1, 0}) {
    store_.adopt(&found.valid[static_cast<std::size_t>(kept)]);
    store_.save(SuperblockKind::commit);
    const FoundCommit newest = read().valid.at(0);
    EXPECT_EQ(newest.superblock.sequence, kept == 0 ? 3 : 2);
  }
}

// On memory, which does not either.
TEST_F(CommitLogTest, WritingAllocatesNothing) {
  const auto memory = io::make_memory_storage(store_.header().layout().bytes);
  CommitLog log(*memory, *memory, store_.header(), store_.manifest(), staging_.buffer.span());
  const std::int64_t before = test::allocation_count.load();
  for (int step = 1; step <= 10; ++step) {
    log.write(SuperblockKind::commit, step, {}, &store_.table());
  }
  EXPECT_EQ(test::allocation_count.load(), before);
}

class OneSlotLogTest : public CommitLogTest {
 protected:
  OneSlotLogTest() : CommitLogTest(1) {}
};

TEST_F(OneSlotLogTest, AStartedMarkHasNoTable) {
  store_.mark_started();
  const FoundCommits found = read();
  ASSERT_EQ(ids_of(found), (std::vector<int>{3, 2}));
  EXPECT_TRUE(found.problems.empty());
  EXPECT_EQ(found.valid[0].superblock.kind, SuperblockKind::started);
  EXPECT_TRUE(found.valid[0].table.checksums.empty());
  EXPECT_EQ(found.valid[1].superblock.kind, SuperblockKind::clean_mark);
  store_.expect_whole(found.valid[1]);
}

using CommitLogDeathTest = CommitLogTest;

TEST_F(CommitLogDeathTest, AStoreOfTwoSlotsHasNoMarks) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(store_.mark_started(), "a started mark in a store of 2 slots");
}

// Every request of the run fails in turn, on each file: the commit before is found, whole, and
// after the failure a commit can be made again.
TEST(CommitLogFault, AFailedRequestLeavesTheCommitBefore) {
  int failures = 0;
  for (std::size_t file = 0; file < 2; ++file) {
    for (int request = 0;; ++request) {
      SCOPED_TRACE(fmt::format("request {} of file {}", request, file));
      std::vector<std::unique_ptr<io::EngineStorage>> drives;
      for (std::size_t f = 0; f < 2; ++f) {
        drives.push_back(io::make_fault_storage(LittleStore::file_bytes(2)[f],
                                                {.fail_request = f == file ? request : -1}));
      }
      Expectations expected;
      LittleStore store(2, std::move(drives), expected);
      try {
        store.fill();
        store.save(SuperblockKind::commit);
        store.update(0);
        store.save(SuperblockKind::commit);
        break;
      } catch (const IoError&) {
        ++failures;
      }
      const FoundCommits found = store.log().read();
      ASSERT_TRUE(expected.newest.contains(found.valid.empty() ? Expectations::kNothing
                                                               : id_of(found.valid[0])));
      if (!found.valid.empty()) store.expect_whole(found.valid[0]);
      if (expected.last_version < 4) continue;  // the initial state is not all there

      store.update(0);
      store.save(SuperblockKind::commit);
      const FoundCommits next = store.log().read();
      ASSERT_TRUE(expected.newest.contains(id_of(next.valid.at(0))));
      store.expect_whole(next.valid[0]);
    }
  }
  EXPECT_GT(failures, 15);  // each file: initial blocks, flushes; superblocks and tables
}

}  // namespace
}  // namespace strata::store::testing

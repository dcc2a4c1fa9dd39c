#include "offload/store/commit_check.h"

#include <gtest/gtest.h>

#include "kernels/base/error.h"
#include "tests/offload/store/filled_store.h"
#include "tests/support/temporary_folder.h"

namespace strata::store::testing {
namespace {

using offload::StateKind;
using Next = CommitCheck::Next;

// A storage that fails reads of one range.
class BadSector final : public io::Storage {
 public:
  BadSector(io::Storage& sound, std::int64_t offset_bytes) : sound_(sound), bad_(offset_bytes) {}
  void read(std::int64_t offset_bytes, AlignedSpan destination, io::IoGroup& group) override {
    if (offset_bytes > bad_ || bad_ >= offset_bytes + destination.bytes()) {
      return sound_.read(offset_bytes, destination, group);
    }
    group.add();
    group.complete(std::make_exception_ptr(IoError("Input/output error (errno 5)")));
  }
  void write(std::int64_t, AlignedSpan, io::IoGroup&) override {}
  void flush(io::IoGroup&) override {}
  std::int64_t capacity_bytes() const override { return sound_.capacity_bytes(); }
  std::int64_t alignment_bytes() const override { return sound_.alignment_bytes(); }
  std::string description() const override { return "with a bad sector"; }
  std::string device_path(int device) const override { return sound_.device_path(device); }
  io::StorageTraffic device_traffic(int device) const override {
    return sound_.device_traffic(device);
  }

 private:
  io::Storage& sound_;
  std::int64_t bad_;
};

class CommitCheckTest : public ::testing::Test {
 protected:
  // With `blocks` in flight.
  std::vector<DamagedBlock> damage_found(io::Storage& data, int blocks) {
    const std::int64_t bytes = CommitCheck::staging_bytes(manifest_, blocks);
    Budget budget("host memory", bytes);
    const AlignedBuffer staging(budget, "staging", bytes);
    const BlockReader reader(data, manifest_, 0);
    CommitCheck check(reader, manifest_, staging.span(), workers_);
    std::vector<DamagedBlock> damaged;
    read_bytes_ = check.run(table_, wanted_, [&](const DamagedBlock& block) {
      damaged.push_back(block);
      return after_damage_;
    });
    return damaged;
  }

  std::int64_t offset_of(int unit, StateKind kind, std::int64_t block) const {
    const auto at = static_cast<std::size_t>(unit);
    const Extent& extent = *manifest_.units[at].extents[static_cast<std::size_t>(kind)];
    return extent.slot_offsets[table_.live_slots[at]] +
           block * BlockReader(*volume_, manifest_, 0).block_bytes(kind);
  }

  void overwrite(int unit, StateKind kind, std::int64_t block) {
    const Staging zeros;
    io::IoGroup group;
    volume_->write(offset_of(unit, kind, block), zeros.buffer.span(0, kPageBytes), group);
    group.wait();
  }

  const test::TemporaryFolder folder_;
  const Manifest manifest_ = two_slot_manifest();
  const std::unique_ptr<io::Volume> volume_ =
      make_store({folder_.path()}, {new_run_id(), 0, 1, ""}, manifest_);
  const CommitTable table_ = fill_slots(*volume_, manifest_, {0, 1, 0, 1, 1}, 1);
  WorkerSet workers_{2};
  std::vector<bool> wanted_;
  Next after_damage_ = Next::go_on;
  std::int64_t read_bytes_ = 0;
};

// Every number of blocks in flight: fewer than the commit has, and more.
TEST_F(CommitCheckTest, FindsWhatIsDamagedAndNothingElse) {
  std::int64_t bytes = 0;
  for_each_block(manifest_, [&](int, StateKind, std::int64_t, std::int64_t b) { bytes += b; });
  EXPECT_TRUE(damage_found(*volume_, 6).empty());
  EXPECT_EQ(read_bytes_, bytes);
  overwrite(0, StateKind::weights, 0);
  overwrite(2, StateKind::moment1, 1);
  overwrite(4, StateKind::moment2, 0);
  const std::vector<DamagedBlock> expected = {{0, StateKind::weights, 0, ""},
                                              {2, StateKind::moment1, 1, ""},
                                              {4, StateKind::moment2, 0, ""}};
  for (const int blocks : {2, 3, 8, 1000}) {
    EXPECT_TRUE(damage_found(*volume_, blocks) == expected) << blocks << " blocks in flight";
    EXPECT_EQ(read_bytes_, bytes);
  }
}

TEST_F(CommitCheckTest, GoesOnBehindWhatCannotBeRead) {
  BadSector data(*volume_, offset_of(0, StateKind::remainder, 2));
  overwrite(1, StateKind::weights, 0);
  const std::vector<DamagedBlock> found = damage_found(data, 4);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(
      (found[0] == DamagedBlock{0, StateKind::remainder, 2, "Input/output error (errno 5)"}));
  EXPECT_TRUE((found[1] == DamagedBlock{1, StateKind::weights, 0, ""}));
}

TEST_F(CommitCheckTest, StopsWhenItIsTold) {
  overwrite(0, StateKind::weights, 0);
  overwrite(0, StateKind::weights, 1);
  after_damage_ = Next::stop;
  EXPECT_EQ(damage_found(*volume_, 4).size(), 1u);
}

TEST_F(CommitCheckTest, LooksAtTheUnitsThatAreWanted) {
  overwrite(0, StateKind::weights, 0);
  overwrite(3, StateKind::weights, 0);
  wanted_ = {false, false, false, true, true};
  const std::vector<DamagedBlock> expected = {{3, StateKind::weights, 0, ""}};
  EXPECT_TRUE(damage_found(*volume_, 4) == expected);
}

}  // namespace
}  // namespace strata::store::testing

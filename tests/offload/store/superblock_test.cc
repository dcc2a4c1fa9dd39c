#include "offload/store/superblock.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/base/error.h"
#include "tests/offload/store/bytes_at.h"
#include "tests/offload/store/encoded.h"
#include "tests/offload/store/small_manifest.h"
#include "tests/support/error_text.h"

namespace strata::store::testing {
namespace {

using test::error_text;
using test::mentions;

Superblock sample() {
  Superblock superblock;
  superblock.run_id = parse_run_id("00112233445566778899aabbccddeeff");
  superblock.rank = 1;
  superblock.world_size = 2;
  superblock.sequence = 7;
  superblock.step = 300;
  superblock.table_bytes = 4096;
  superblock.table_checksum = 99;
  superblock.snapshot = {1000, 301, 299, 1, {1, 2, 3, ~std::uint64_t{0}}};
  return superblock;
}

CommitTable sample_table(const Manifest& manifest) {
  CommitTable table;
  for (std::size_t u = 0; u < manifest.units.size(); ++u) {
    table.live_slots.push_back(static_cast<std::uint8_t>(manifest.slots == 2 ? u % 2 : 0));
  }
  for (std::int64_t b = 0; b < manifest.committed_blocks(); ++b) {
    table.checksums.push_back(0x9E3779B97F4A7C15u * static_cast<std::uint64_t>(b + 1));
  }
  return table;
}

// docs/store-format.md, "Superblock".
TEST(Superblock, LiesAsDocumented) {
  const std::vector<std::byte> bytes = encoded(sample());
  ASSERT_EQ(bytes.size(), 4096u);
  EXPECT_EQ(std::memcmp(bytes.data(), "STRATASB", 8), 0);
  EXPECT_EQ(at<std::int32_t>(bytes, 8), 1);
  EXPECT_EQ(at<std::uint8_t>(bytes, 31), 0xFF);
  EXPECT_EQ(at<std::int32_t>(bytes, 32), 1);
  EXPECT_EQ(at<std::int32_t>(bytes, 36), 2);
  EXPECT_EQ(at<std::int64_t>(bytes, 40), 7);
  EXPECT_EQ(at<std::int64_t>(bytes, 48), 300);
  EXPECT_EQ(at<std::int64_t>(bytes, 56), 4096);
  EXPECT_EQ(at<std::uint64_t>(bytes, 64), 99u);
  EXPECT_EQ(at<std::int64_t>(bytes, 72), 1000);
  EXPECT_EQ(at<std::int64_t>(bytes, 80), 301);
  EXPECT_EQ(at<std::int64_t>(bytes, 88), 299);
  EXPECT_EQ(at<std::int64_t>(bytes, 96), 1);
  EXPECT_EQ(at<std::uint64_t>(bytes, 128), ~std::uint64_t{0});
}

TEST(Superblock, SurvivesEncodingAndDecoding) {
  const Superblock superblock = sample();
  const auto decoded = decode_superblock(encoded(superblock), 1);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->snapshot, superblock.snapshot);
  EXPECT_EQ(decoded->step, 300);
  EXPECT_EQ(encoded(*decoded), encoded(superblock));
}

TEST(Superblock, AnErasedCopyIsNothing) {
  EXPECT_FALSE(decode_superblock(std::vector<std::byte>(kSuperblockBytes), 0));
}

TEST(Superblock, ACopyInTheOthersPlaceIsRefused) {
  EXPECT_THROW(decode_superblock(encoded(sample()), 0), FormatError);
}

// Of 512-byte sectors any may be old: a crash damages no superblock.
TEST(Superblock, ATornWriteLeavesTheOldOneOrTheNew) {
  Superblock before = sample();
  before.sequence = 5;
  before.step = 200;
  const std::vector<std::byte> old_bytes = encoded(before);
  const std::vector<std::byte> new_bytes = encoded(sample());
  for (unsigned sectors = 0; sectors < 256; ++sectors) {
    std::vector<std::byte> torn = old_bytes;
    for (unsigned sector = 0; sector < 8; ++sector) {
      if ((sectors >> sector & 1) == 0) continue;
      std::memcpy(torn.data() + sector * 512, new_bytes.data() + sector * 512, 512);
    }
    const bool is_new = (sectors & 1) != 0;
    EXPECT_EQ(decode_superblock(torn, 1)->step, is_new ? sample().step : 200) << sectors;
  }
}

TEST(Superblock, AnyFlippedBitIsFound) {
  const std::vector<std::byte> bytes = encoded(sample());
  for (std::size_t bit = 0; bit < bytes.size() * 8; bit += 5) {
    std::vector<std::byte> damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_THROW(decode_superblock(damaged, 1), FormatError) << "bit " << bit;
  }
}

TEST(Superblock, NumbersAreChecked) {
  const auto error = [](const auto& change) {
    Superblock superblock = sample();
    change(superblock);
    const std::vector<std::byte> bytes = encoded(superblock);
    const int copy = static_cast<int>(superblock.sequence & 1);
    return error_text<FormatError>([&] { decode_superblock(bytes, copy); });
  };
  EXPECT_TRUE(mentions(error([](Superblock& s) { s.rank = 2; }), "the rank"));
  EXPECT_TRUE(mentions(error([](Superblock& s) { s.world_size = 0; }), "the world size"));
  EXPECT_TRUE(mentions(error([](Superblock& s) { s.sequence = 0; }), "the sequence number"));
  EXPECT_TRUE(mentions(error([](Superblock& s) { s.step = -1; }), "the step"));
  EXPECT_TRUE(mentions(error([](Superblock& s) { s.table_bytes = 0; }), "the commit table's"));
  EXPECT_TRUE(mentions(error([](Superblock& s) { s.snapshot.data_position = -1; }), "position"));
  EXPECT_TRUE(mentions(error([](Superblock& s) { s.kind = SuperblockKind(4); }), "kind"));
  EXPECT_TRUE(mentions(error([](Superblock& s) { s.kind = SuperblockKind::started; }), "table"));
}

TEST(Superblock, AStartedMarkHasNoTable) {
  Superblock superblock = sample();
  superblock.kind = SuperblockKind::started;
  superblock.table_bytes = 0;
  superblock.table_checksum = 0;
  EXPECT_EQ(at<std::int32_t>(encoded(superblock), 8), 3);
  EXPECT_EQ(decode_superblock(encoded(superblock), 1)->kind, SuperblockKind::started);
}

TEST(CommitTable, SurvivesEncodingAndDecoding) {
  for (const Manifest& manifest : {small_manifest(), two_slot_manifest()}) {
    Superblock superblock = sample();
    const CommitTable table = sample_table(manifest);
    const std::vector<std::byte> bytes = encoded(table, superblock.sequence, manifest);
    EXPECT_EQ(static_cast<std::int64_t>(bytes.size()), commit_table_bytes(manifest));
    superblock.table_bytes = commit_table_bytes(manifest);
    superblock.table_checksum = table_checksum(bytes, superblock.sequence);
    const CommitTable decoded = decode_commit_table(bytes, superblock, manifest);
    EXPECT_EQ(decoded.live_slots, table.live_slots);
    EXPECT_EQ(decoded.checksums, table.checksums);
  }
}

// docs/store-format.md, "Commit table".
TEST(CommitTable, LiesAsDocumented) {
  const Manifest manifest = two_slot_manifest();
  const std::vector<std::byte> bytes = encoded(sample_table(manifest), 7, manifest);
  EXPECT_EQ(std::memcmp(bytes.data(), "STRATATB", 8), 0);
  EXPECT_EQ(at<std::int64_t>(bytes, 8), 7);
  EXPECT_EQ(at<std::int64_t>(bytes, 16), 5);
  EXPECT_EQ(at<std::int64_t>(bytes, 24), 60);
  EXPECT_EQ(at<std::uint8_t>(bytes, 32), 0b01010);  // units 1 and 3 live in slot 1
  EXPECT_EQ(at<std::uint64_t>(bytes, 40), 0x9E3779B97F4A7C15u);
}

TEST(CommitTable, OneOfAnotherCommitIsRefused) {
  const Manifest manifest = two_slot_manifest();
  Superblock superblock = sample();
  superblock.table_bytes = commit_table_bytes(manifest);
  const std::vector<std::byte> mine = encoded(sample_table(manifest), 7, manifest);
  superblock.table_checksum = table_checksum(mine, 7);
  EXPECT_NO_THROW(decode_commit_table(mine, superblock, manifest));
  const std::vector<std::byte> older = encoded(sample_table(manifest), 5, manifest);
  EXPECT_THROW(decode_commit_table(older, superblock, manifest), FormatError);
  std::vector<std::byte> damaged = mine;
  damaged[60] ^= std::byte{1};
  EXPECT_THROW(decode_commit_table(damaged, superblock, manifest), FormatError);
  EXPECT_THROW(decode_commit_table(std::span(mine).first(100), superblock, manifest), FormatError);
}

// A unit that is never updated has one slot in any store.
TEST(CommitTable, ALiveSlotIsOneThatTheUnitHas) {
  Manifest manifest = two_slot_manifest();
  Superblock superblock = sample();
  superblock.table_bytes = commit_table_bytes(manifest);
  const std::vector<std::byte> bytes = encoded(sample_table(manifest), 7, manifest);
  superblock.table_checksum = table_checksum(bytes, 7);
  for (auto& extent : manifest.units[1].extents) {
    if (extent) extent->slot_offsets.resize(1);
  }
  EXPECT_TRUE(
      mentions(error_text<FormatError>([&] { decode_commit_table(bytes, superblock, manifest); }),
               "a live slot is 1"));
}

}  // namespace
}  // namespace strata::store::testing

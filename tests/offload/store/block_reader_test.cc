#include "offload/store/block_reader.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/base/error.h"
#include "tests/offload/store/filled_store.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::store::testing {
namespace {

using offload::StateKind;

// A store of two slots on two directories; unit u's state lies in slot u % 2.
class BlockReaderTest : public ::testing::Test {
 protected:
  static std::vector<std::uint8_t> alternating_slots(const Manifest& manifest) {
    std::vector<std::uint8_t> slots;
    for (std::size_t u = 0; u < manifest.units.size(); ++u) {
      slots.push_back(static_cast<std::uint8_t>(u % 2));
    }
    return slots;
  }

  // Changes one byte of a block on the drive.
  void damage(int unit, StateKind kind, std::int64_t block) {
    const Extent& extent =
        *manifest_.units[static_cast<std::size_t>(unit)].extents[static_cast<std::size_t>(kind)];
    const std::size_t live = table_.live_slots[static_cast<std::size_t>(unit)];
    const std::int64_t at = extent.slot_offsets[live] + block * reader_.block_bytes(kind);
    const AlignedSpan page = staging_.buffer.span(0, kPageBytes);
    io::IoGroup group;
    volume_->read(at, page, group);
    group.wait();
    page.data()[100] ^= std::byte{1};
    volume_->write(at, page, group);
    group.wait();
  }

  const test::TemporaryFolder first_, second_;
  const Manifest manifest_ = two_slot_manifest();
  const std::unique_ptr<io::Volume> volume_ =
      make_store({first_.path(), second_.path()}, {new_run_id(), 0, 1, ""}, manifest_);
  const CommitTable table_ =
      fill_slots(*volume_, manifest_, alternating_slots(manifest_), /*version=*/1);
  const Staging staging_;
  const BlockReader reader_{*volume_, manifest_, 0};
};

TEST_F(BlockReaderTest, ReadsEveryBlockOfTheLiveSlots) {
  // The slots that are not live hold something else.
  std::vector<std::uint8_t> others = table_.live_slots;
  for (std::uint8_t& slot : others) slot = 1 - slot;
  fill_slots(*volume_, manifest_, others, /*version=*/2);
  const Staging expected;
  for_each_block(manifest_, [&](int unit, StateKind kind, std::int64_t block, std::int64_t bytes) {
    EXPECT_LE(bytes, reader_.block_bytes(kind));
    EXPECT_EQ(reader_.read(table_, unit, kind, block, staging_.buffer.span()), bytes);
    fill_block(expected.buffer.span(0, bytes), unit, kind, block,
               table_.live_slots[static_cast<std::size_t>(unit)], 1);
    EXPECT_EQ(std::memcmp(staging_.buffer.data(), expected.buffer.data(),
                          static_cast<std::size_t>(bytes)),
              0);
  });
}

TEST_F(BlockReaderTest, CountsBlocksOfShardsAndNoneOfGradients) {
  // The table's shard is 20,480 elements in blocks of 4,096.
  EXPECT_EQ(reader_.blocks(0, StateKind::weights), 5);
  EXPECT_EQ(reader_.blocks(0, StateKind::moment2), 5);
  EXPECT_EQ(reader_.blocks(0, StateKind::gradients), 0);
  EXPECT_EQ(reader_.block_bytes(StateKind::weights), 2 * 4096);
  EXPECT_EQ(reader_.block_bytes(StateKind::moment1), 4 * 4096);
}

TEST_F(BlockReaderTest, ADamagedBlockIsNamedAndTheOthersRead) {
  damage(0, StateKind::moment1, 3);
  const auto text = test::error_text<IoError>(
      [&] { reader_.read(table_, 0, StateKind::moment1, 3, staging_.buffer.span()); });
  // Elements 12,288 to 16,384 of the unit: row 100 begins at element 10,048.
  EXPECT_TRUE(test::mentions(text, "moment1 of wte.weight [12240, 16336)")) << text;
  EXPECT_TRUE(test::mentions(text, ".store at offset ")) << text;
  for (const std::int64_t block : {2, 4}) {
    EXPECT_NO_THROW(reader_.read(table_, 0, StateKind::moment1, block, staging_.buffer.span()));
  }
}

// Right bytes in the wrong place, and bytes of a state that was never written.
TEST_F(BlockReaderTest, OnlyTheBlockItselfIsIntact) {
  io::IoGroup group;
  reader_.start(table_, 0, StateKind::weights, 1, staging_.buffer.span(), group);
  group.wait();
  const AlignedSpan bytes = staging_.buffer.span(0, reader_.block_bytes(StateKind::weights));
  EXPECT_TRUE(reader_.is_intact(table_, 0, StateKind::weights, 1, bytes));
  EXPECT_FALSE(reader_.is_intact(table_, 0, StateKind::weights, 2, bytes));
  EXPECT_FALSE(reader_.is_intact(table_, 0, StateKind::remainder, 1, bytes));
  EXPECT_FALSE(reader_.is_intact(table_, 1, StateKind::weights, 1, bytes));
  CommitTable unwritten = table_;
  unwritten.checksums.assign(table_.checksums.size(), 0);
  EXPECT_FALSE(reader_.is_intact(unwritten, 0, StateKind::weights, 1, bytes));
}

TEST_F(BlockReaderTest, ParametersAreThoseOfTheWholeTensor) {
  // Rows 0 to 99 are elements 0 to 9,999 of the unit, then there is padding up to 10,048, where
  // rows 100 to 198 begin; they end at 19,948.
  EXPECT_EQ(reader_.parameters_of(0, 0), (std::vector<ParameterRange>{{"wte.weight", 0, 4096}}));
  EXPECT_EQ(
      reader_.parameters_of(0, 2),
      (std::vector<ParameterRange>{{"wte.weight", 8192, 10000}, {"wte.weight", 10000, 12240}}));
  EXPECT_EQ(reader_.parameters_of(0, 3, 2),
            (std::vector<ParameterRange>{{"wte.weight", 12240, 19900}}));
  EXPECT_EQ(reader_.parameters_of(0, 4),
            (std::vector<ParameterRange>{{"wte.weight", 16336, 19900}}));
}

TEST(BlockReader, ParametersOfLaterRanksBeginWithTheirShard) {
  Manifest manifest = small_manifest();
  StoredUnit& unit = manifest.units[0];
  unit.shard_elements = 12288;  // of two ranks
  for (auto& extent : unit.extents) extent.reset();
  const test::TemporaryFolder folder;
  const auto volume = make_store({folder.path()}, {new_run_id(), 1, 2, ""});
  const BlockReader second(*volume, manifest, 1);
  EXPECT_EQ(second.parameters_of(0, 0),
            (std::vector<ParameterRange>{{"wte.weight", 12240, 16336}}));
  EXPECT_EQ(second.parameters_of(0, 1),
            (std::vector<ParameterRange>{{"wte.weight", 16336, 19900}}));
  EXPECT_TRUE(second.parameters_of(0, 2).empty());
  EXPECT_TRUE(
      test::mentions(second.describe(0, StateKind::weights, 2), "weights of padding of table"));
}

// In int8 a block is its codes, then its scales, padded to a page: 4,096 + 16 x 4 bytes.
TEST(BlockReader, BlocksOfMomentsInInt8HoldTheirScales) {
  Manifest manifest = small_manifest();
  manifest.dtypes.moments = MomentFormat::int8;
  manifest.data_bytes = 0;
  for (StoredUnit& unit : manifest.units) {
    for (int k = 0; k < offload::kStateKinds; ++k) {
      const auto kind = static_cast<StateKind>(k);
      const std::int64_t bytes =
          offload::state_bytes(kind, manifest.dtypes, unit.shard_elements, 4096);
      unit.extents[static_cast<std::size_t>(k)] = Extent{bytes, {manifest.data_bytes}};
      manifest.data_bytes += bytes;
    }
  }
  const test::TemporaryFolder folder;
  const auto volume = make_store({folder.path()}, {new_run_id(), 0, 1, ""}, manifest);
  const CommitTable table =
      fill_slots(*volume, manifest, std::vector<std::uint8_t>(manifest.units.size()), 1);
  const BlockReader reader(*volume, manifest, 0);
  EXPECT_EQ(reader.block_bytes(StateKind::moment1), 8192);
  const Staging staging;
  for_each_block(manifest, [&](int unit, StateKind kind, std::int64_t block, std::int64_t bytes) {
    EXPECT_EQ(reader.read(table, unit, kind, block, staging.buffer.span()), bytes);
  });
}

}  // namespace
}  // namespace strata::store::testing

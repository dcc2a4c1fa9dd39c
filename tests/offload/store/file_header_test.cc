#include "offload/store/file_header.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/base/error.h"
#include "offload/store/checksum.h"
#include "tests/offload/store/bytes_at.h"
#include "tests/support/error_text.h"

namespace strata::store::testing {
namespace {

using test::error_text;
using test::mentions;

FileHeader sample() {
  FileHeader header;
  header.run_id = parse_run_id("00112233445566778899aabbccddeeff");
  header.created_s = 1700000000;
  header.rank = 3;
  header.world_size = 4;
  header.directory = 1;
  header.process_id = 4242;
  header.host = "trainer-7";
  header.run_folder = "/data/runs/gpt 2";
  header.manifest_bytes = 5000;
  header.manifest_checksum = 0x0123456789ABCDEF;
  header.commit_table_bytes = 12288;
  header.data_bytes = 9 << 20;
  header.stripe_bytes = 1 << 20;
  header.shares = {{3, 6}, {1, 3}};
  return header;
}

// Puts the checksum that its bytes ask for, as a program would that writes wrong things.
void seal(std::vector<std::byte>& bytes) {
  const std::uint64_t sum = checksum(bytes.data(), kHeaderBytes - 8, 0x68656164);
  std::memcpy(bytes.data() + kHeaderBytes - 8, &sum, 8);
}

template <typename T>
std::string error_with(std::size_t offset, T value) {
  std::vector<std::byte> bytes = encode(sample());
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  seal(bytes);
  return error_text<FormatError>([&] { decode_header(bytes); });
}

// docs/store-format.md, "Header".
TEST(FileHeader, LiesAsDocumented) {
  const std::vector<std::byte> bytes = encode(sample());
  ASSERT_EQ(bytes.size(), 8192u);
  EXPECT_EQ(std::memcmp(bytes.data(), "STRATA\x1A\n", 8), 0);
  EXPECT_EQ(at<std::int64_t>(bytes, 8), 1);
  EXPECT_EQ(at<std::uint8_t>(bytes, 17), 0x11);  // of the run id
  EXPECT_EQ(at<std::int64_t>(bytes, 32), 1700000000);
  EXPECT_EQ(at<std::int32_t>(bytes, 40), 3);
  EXPECT_EQ(at<std::int32_t>(bytes, 44), 4);
  EXPECT_EQ(at<std::int32_t>(bytes, 48), 1);
  EXPECT_EQ(at<std::int32_t>(bytes, 52), 2);
  EXPECT_EQ(at<std::int64_t>(bytes, 56), 4242);
  EXPECT_EQ(at<std::int64_t>(bytes, 64), 16384 + 8192 + 2 * 12288);
  EXPECT_EQ(at<std::int64_t>(bytes, 72), 5000);
  EXPECT_EQ(at<std::uint64_t>(bytes, 80), 0x0123456789ABCDEFu);
  EXPECT_EQ(at<std::int64_t>(bytes, 88), 12288);
  EXPECT_EQ(at<std::int64_t>(bytes, 96), 9 << 20);
  EXPECT_EQ(at<std::int64_t>(bytes, 104), 1 << 20);
  EXPECT_STREQ(reinterpret_cast<const char*>(bytes.data()) + 112, "trainer-7");
  EXPECT_STREQ(reinterpret_cast<const char*>(bytes.data()) + 368, "/data/runs/gpt 2");
  EXPECT_EQ(at<std::int64_t>(bytes, 4464), 3);
  EXPECT_EQ(at<std::int64_t>(bytes, 4472), 6);
  EXPECT_EQ(at<std::int64_t>(bytes, 4480), 1);
}

TEST(FileHeader, SurvivesEncodingAndDecoding) {
  const std::vector<std::byte> bytes = encode(sample());
  const FileHeader decoded = decode_header(bytes);
  EXPECT_EQ(encode(decoded), bytes);
  EXPECT_EQ(format_run_id(decoded.run_id), "00112233445566778899aabbccddeeff");
  EXPECT_EQ(decoded.host, "trainer-7");
  EXPECT_EQ(decoded.run_folder, "/data/runs/gpt 2");
  EXPECT_EQ(decoded.directories(), 2);
}

TEST(FileHeader, PiecesOfMetadataFollowEachOther) {
  const MetadataLayout layout = metadata_layout(4097, 8192);
  EXPECT_EQ(layout.superblocks[0], 8192);
  EXPECT_EQ(layout.superblocks[1], 12288);
  EXPECT_EQ(layout.manifest, 16384);
  EXPECT_EQ(layout.commit_tables[0], 16384 + 8192);
  EXPECT_EQ(layout.commit_tables[1], 16384 + 2 * 8192);
  EXPECT_EQ(layout.bytes, 16384 + 3 * 8192);
}

TEST(FileHeader, AnyFlippedBitIsFound) {
  const std::vector<std::byte> bytes = encode(sample());
  for (std::size_t bit = 0; bit < bytes.size() * 8; bit += 7) {
    std::vector<std::byte> damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_THROW(decode_header(damaged), FormatError) << "bit " << bit;
  }
}

TEST(FileHeader, SaysWhatIsWrong) {
  EXPECT_TRUE(mentions(error_text<FormatError>([] { decode_header({}); }), "too few"));
  const std::vector<std::byte> zeros(kHeaderBytes);
  EXPECT_TRUE(mentions(error_text<FormatError>([&] { decode_header(zeros); }),
                       "does not begin as a store"));
  std::vector<std::byte> damaged = encode(sample());
  damaged[4000] = std::byte{1};
  EXPECT_TRUE(mentions(error_text<FormatError>([&] { decode_header(damaged); }), "checksum"));
  EXPECT_TRUE(mentions(error_with<std::int64_t>(8, 2),
                       "a store of format version 2; this program reads 1"));
}

TEST(FileHeader, NumbersAreCheckedEvenUnderARightChecksum) {
  EXPECT_TRUE(mentions(error_with<std::int32_t>(40, 4), "the rank is 4"));
  EXPECT_TRUE(mentions(error_with<std::int32_t>(44, 0), "the world size"));
  EXPECT_TRUE(mentions(error_with<std::int32_t>(48, 2), "the directory is 2"));
  EXPECT_TRUE(mentions(error_with<std::int32_t>(52, 129), "the number of directories"));
  EXPECT_TRUE(mentions(error_with<std::int32_t>(52, -1), "the number of directories"));
  EXPECT_TRUE(mentions(error_with<std::int64_t>(64, 4096), "the metadata's length"));
  EXPECT_TRUE(mentions(error_with<std::int64_t>(72, -1), "the manifest's length"));
  EXPECT_TRUE(mentions(error_with<std::int64_t>(72, INT64_MAX), "the manifest's length"));
  EXPECT_TRUE(mentions(error_with<std::int64_t>(88, 100), "a commit table's length"));
  EXPECT_TRUE(mentions(error_with<std::int64_t>(96, -4096), "the data's length"));
  EXPECT_TRUE(mentions(error_with<std::int64_t>(104, 0), "a stripe's length"));
  EXPECT_TRUE(mentions(error_with<std::int64_t>(4464, 0), "weight"));
  EXPECT_TRUE(mentions(error_with<std::int64_t>(4472, 5), "stripes"));
  EXPECT_TRUE(mentions(error_with<std::int64_t>(4472, INT64_MAX), "stripes"));
  EXPECT_TRUE(mentions(error_with<char>(367, 'x'), "host name"));
}

TEST(RunId, IsReadStrictly) {
  for (const char* text :
       {"", "00", "00112233445566778899AABBCCDDEEFF", "00112233445566778899aabbccddeefg",
        "00112233445566778899aabbccddeeff0"}) {
    EXPECT_THROW(parse_run_id(text), FormatError) << text;
  }
}

}  // namespace
}  // namespace strata::store::testing

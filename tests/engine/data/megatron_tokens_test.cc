// Megatron's .idx/.bin: what a sound pair means, and that a damaged index is refused by what is
// wrong with it.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "engine/data/token_source.h"
#include "kernels/base/error.h"
#include "tests/engine/data/token_test_files.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::bytes_of;
using test::error_text;
using test::MegatronIndex;
using test::mentions;
using test::open_tokens;
using test::read_all;
using Ids = std::vector<std::int32_t>;

constexpr std::uint8_t kInt32 = 4;
constexpr std::uint8_t kUint16 = 8;

std::string write_pair(const test::DataFolder& folder, const std::string& name,
                       const MegatronIndex& index, const std::string& tokens) {
  folder.write(name + ".idx", index.bytes());
  folder.write(name + ".bin", tokens);
  return folder.path(name);
}

TEST(MegatronTokens, IndexBinAndPrefixNameTheSameTokens) {
  const test::DataFolder folder;
  const std::string prefix = write_pair(folder, "a", MegatronIndex({2, 0, 3}, kUint16, 2),
                                        bytes_of(std::vector<std::uint16_t>{1, 2, 3, 50000, 5}));
  for (const char* suffix : {"", ".idx", ".bin"}) {
    const auto source = open_tokens(prefix + suffix, 50257);
    EXPECT_EQ(read_all(*source), (Ids{1, 2, 3, 50000, 5})) << suffix;
    EXPECT_EQ(source->description(), "5 Megatron uint16 tokens") << suffix;
  }
}

TEST(MegatronTokens, Int32) {
  const test::DataFolder folder;
  const std::string path =
      write_pair(folder, "a", MegatronIndex({1, 2}, kInt32, 4), bytes_of(Ids{100'000, 7, 151'935}));
  EXPECT_EQ(read_all(*open_tokens(path, 151'936)), (Ids{100'000, 7, 151'935}));
  EXPECT_EQ(open_tokens(path, 151'936)->description(), "3 Megatron int32 tokens");
  const std::string negative =
      write_pair(folder, "b", MegatronIndex({2}, kInt32, 4), bytes_of(Ids{1, -5}));
  const auto message = error_text<FormatError>([&] { read_all(*open_tokens(negative, 100)); });
  EXPECT_TRUE(mentions(message, "b.bin': id -5 at position 1")) << message;
}

// More sequences than any window over the index's arrays holds.
TEST(MegatronTokens, ALongIndexIsCheckedToItsEnd) {
  const test::DataFolder folder;
  MegatronIndex index(std::vector<std::int32_t>(5000, 2), kUint16, 2);
  std::vector<std::uint16_t> tokens(10'000);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
  const Ids ids = read_all(*open_tokens(write_pair(folder, "a", index, bytes_of(tokens)), 65536));
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), tokens.begin(), tokens.end()));
  index.pointers[4999] += 2;
  const std::string path = write_pair(folder, "b", index, bytes_of(tokens));
  const auto message = error_text<FormatError>([&] { (void)open_tokens(path, 65536); });
  EXPECT_TRUE(mentions(message, "sequence 4999 begins at byte 19998")) << message;
}

TEST(MegatronTokens, ADamagedIndexIsRefused) {
  const test::DataFolder folder;
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;
  const struct {
    const char* message;
    std::function<void(MegatronIndex&)> damage;
  } kCases[] = {
      {"not a Megatron index", [](auto& i) { i.magic[0] = 'T'; }},
      {"of version 2", [](auto& i) { i.version = {2}; }},
      {"promises 4 sequences and 4 document",
       [](auto& i) {
         i.counts = {4, 4};
       }},
      {"promises 2 sequences and 4 document",
       [](auto& i) {
         i.counts = {2, 4};
       }},
      {"promises 3 sequences and 5 document",
       [](auto& i) {
         i.counts = {3, 5};
       }},
      {"9223372036854775808 sequences",
       [=](auto& i) {
         i.counts = {kHuge, 4};
       }},
      {"9223372036854775808 document",
       [=](auto& i) {
         i.counts = {3, kHuge};
       }},
      // 12 x + 8 y wraps around to the size that the file has.
      {"promises 4611686018427387907 sequences",
       [=](auto& i) {
         i.counts = {kHuge / 2 + 3, 4};
       }},
      {"sequence 1 begins at byte 2 of", [](auto& i) { i.pointers[1] = 2; }},
      {"sequence 0 begins at byte -4 of", [](auto& i) { i.pointers[0] = -4; }},
      {"sequence 1 at byte 4 has length -1", [](auto& i) { i.lengths[1] = -1; }},
      {"sequence 2 at byte 6 has length 2147483647", [](auto& i) { i.lengths[2] = 2147483647; }},
      {"index of 10 bytes of tokens", [](auto& i) { i.lengths[2] = 2; }},
      {"entry 0 of its document index is 1", [](auto& i) { i.documents[0] = 1; }},
      {"entry 0 of its document index is -1", [](auto& i) { i.documents[0] = -1; }},
      {"entry 2 of its document index is 0, after 1", [](auto& i) { i.documents[2] = 0; }},
      {"entry 3 of its document index is 4", [](auto& i) { i.documents[3] = 4; }},
      {"ends at sequence 2 of 3", [](auto& i) { i.documents[3] = 2; }},
      {"has 0 entries", [](auto& i) { i.documents.clear(); }},
  };
  const std::string tokens = bytes_of(std::vector<std::uint16_t>{1, 2, 3, 4, 5, 6});
  for (const auto& c : kCases) {
    MegatronIndex index({2, 1, 3}, kUint16, 2);
    c.damage(index);
    const std::string path = write_pair(folder, "a", index, tokens);
    const auto message = error_text<FormatError>([&] { (void)open_tokens(path, 100); });
    EXPECT_TRUE(mentions(message, c.message)) << message;
    EXPECT_TRUE(mentions(message, "a.idx'")) << message;
  }
}

TEST(MegatronTokens, ACutIndexIsRefused) {
  const test::DataFolder folder;
  const std::string whole = MegatronIndex({2, 1}, kUint16, 2).bytes();
  folder.write("a.bin", bytes_of(std::vector<std::uint16_t>{1, 2, 3}));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const std::string path = folder.write("a.idx", whole.substr(0, bytes));
    EXPECT_THROW((void)open_tokens(path, 100), FormatError) << bytes;
  }
  const std::string path = folder.write("a.idx", whole);
  EXPECT_EQ(open_tokens(path, 100)->tokens(), 3);
  folder.write("a.idx", whole + "m");
  EXPECT_THROW((void)open_tokens(path, 100), FormatError);
  folder.write("a.idx", whole + "mm");  // one byte for each sequence
  EXPECT_TRUE(mentions(error_text<FormatError>([&] { (void)open_tokens(path, 100); }),
                       "as multimodal data have"));
}

TEST(MegatronTokens, OtherTypesAreRefusedByName) {
  const test::DataFolder folder;
  const char* const kNames[] = {"code 0", "uint8",   "int8",    "int16", "",
                                "int64",  "float64", "float32", ""};
  for (std::uint8_t code : {0, 1, 2, 3, 5, 6, 7}) {
    const std::string path = write_pair(folder, "a", MegatronIndex({1}, code, 8), "12345678");
    const auto message = error_text<FormatError>([&] { (void)open_tokens(path, 100); });
    EXPECT_TRUE(mentions(message, std::string("tokens of type ") + kNames[code] + ";")) << message;
  }
  const std::string path = write_pair(folder, "a", MegatronIndex({1}, 255, 8), "12345678");
  EXPECT_TRUE(mentions(error_text<FormatError>([&] { (void)open_tokens(path, 100); }), "code 255"));
}

TEST(MegatronTokens, HalfAPairIsNamed) {
  const test::DataFolder folder;
  const std::string path = folder.write("a.idx", MegatronIndex({1}, kUint16, 2).bytes());
  for (const std::string& name : {path, folder.path("a")}) {
    const auto message = error_text<ConfigError>([&] { (void)open_tokens(name, 100); });
    EXPECT_TRUE(mentions(message, "a.bin': No such file")) << message;
  }
  // A text that happens to be named like a prefix is a text.
  EXPECT_EQ(open_tokens(folder.write("a", "text"), 256)->description(), "4 bytes of text");
}

}  // namespace
}  // namespace strata::engine

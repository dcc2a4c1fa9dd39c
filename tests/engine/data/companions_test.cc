// What lies beside token files: damaged, of other files, or only beside some.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <random>

#include "engine/data/document_samples.h"
#include "engine/data/token_data.h"
#include "engine/data/token_metadata.h"
#include "kernels/base/error.h"
#include "tests/engine/data/sample_test.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::docs_bytes;
using test::error_text;
using test::mentions;

constexpr std::int64_t kVocabulary = 256;

class Companions : public ::testing::Test {
 protected:
  std::string tokens() const {
    return folder_.write("d.bin", test::bytes_of(std::vector<std::uint16_t>(10, 'a')));
  }
  template <typename E>
  std::string refusal() const {
    return error_text<E>([&] { (void)open_token_data(tokens(), kVocabulary); });
  }
  test::DataFolder folder_;
};

TEST_F(Companions, DocumentsThatAreNoneAreRefused) {
  const std::string good = docs_bytes({0, 3, 9});
  const struct {
    std::string bytes;
    const char* message;
  } kDamaged[] = {
      {"", "does not begin with STRATADC"},
      {good.substr(0, 12), "does not begin with STRATADC"},
      {"STRATADX" + good.substr(8), "does not begin with STRATADC"},
      {good.substr(0, 39), "promises 3 documents, but its 39 bytes have room for 2"},
      {good + "12345678", "promises 3 documents, but its 48 bytes have room for 4"},
      {good + "1", "promises 3 documents"},
      {docs_bytes({}), "promises 0 documents"},
      {"STRATADC" + std::string(8, '\xff'), "promises -1 documents"},
      {docs_bytes({1, 3}), "document 0 begins at token 1"},
      {docs_bytes({0, 3, 3}), "document 2 begins at token 3, the one before it at 3"},
      {docs_bytes({0, 5, 4}), "document 2 begins at token 4"},
      {docs_bytes({0, 10}), "document 1 begins at token 10, the one before it at 0, of 10 tokens"},
      {docs_bytes({0, ~0ull}), "document 1 begins at token -1"},
  };
  for (const auto& damaged : kDamaged) {
    folder_.write("d.docs", damaged.bytes);
    EXPECT_TRUE(mentions(refusal<FormatError>(), damaged.message)) << refusal<FormatError>();
    EXPECT_TRUE(mentions(refusal<FormatError>(), folder_.path("d.docs")));
  }
  folder_.write("d.docs", good);
  EXPECT_EQ(open_token_data(tokens(), kVocabulary).documents->documents(), 3);
}

// Every byte changed or cut off somewhere: refused, or a list that keeps the rules.
TEST_F(Companions, NoDamageOfDocumentsGetsThrough) {
  std::mt19937 random(3);
  const std::string good = docs_bytes({0, 2, 5, 9});
  const std::string path = tokens();
  int accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    folder_.write("d.docs", bytes);
    try {
      const TokenData data = open_token_data(path, kVocabulary);
      std::vector<std::int64_t> starts(static_cast<std::size_t>(data.documents->documents()) + 1);
      data.documents->read(0, starts);
      EXPECT_EQ(starts.front(), 0);
      EXPECT_EQ(starts.back(), 10);
      for (std::size_t d = 1; d < starts.size(); ++d) EXPECT_LT(starts[d - 1], starts[d]);
      ++accepted;
    } catch (const FormatError&) {
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 400);
}

TEST_F(Companions, MasksOfAnotherSizeOrValueAreRefused) {
  folder_.write("d.mask", std::string(9, '\1'));
  EXPECT_TRUE(mentions(refusal<FormatError>(), "d.mask' has 9 bytes for 10 tokens"));
  folder_.write("d.mask", std::string(9, '\1') + "1");
  const TokenData data = open_token_data(tokens(), kVocabulary);
  std::vector<std::int32_t> targets(8);
  data.mask->ignore_untrained(0, targets);
  const auto message = error_text<FormatError>([&] { data.mask->ignore_untrained(2, targets); });
  EXPECT_TRUE(mentions(message, "the byte at 9 is 49")) << message;
}

TEST_F(Companions, AllFilesOfAListHaveThemOrNone) {
  for (const char* const extension : {".mask", ".docs"}) {
    const test::DataFolder folder;
    folder.write("a.bin", test::bytes_of(std::vector<std::uint16_t>(4, 'a')));
    folder.write("b.bin", test::bytes_of(std::vector<std::uint16_t>(4, 'b')));
    folder.write(std::string("b") + extension,
                 extension == std::string(".docs") ? docs_bytes({0}) : std::string(4, '\1'));
    const auto message =
        error_text<ConfigError>([&] { (void)open_token_data(folder.path("?.bin"), kVocabulary); });
    EXPECT_TRUE(mentions(message, folder.path("b.bin") + "' has a " + extension)) << message;
    EXPECT_TRUE(mentions(message, folder.path("a.bin") + "' has none")) << message;
  }
}

constexpr const char* kHash = "xxh3-128:c9eb53980e721828eed69facee57fd2f";

std::string metadata(const std::string& hash, int tokens = 10) {
  return R"({"format": "strata tokens", "version": 1, "tokenizer": ")" + hash + R"(", "tokens": )" +
         std::to_string(tokens) + R"(, "documents": 3, "trained_tokens": 4})";
}

// What belongs to that.
void write_companions(const test::DataFolder& folder) {
  folder.write("d.docs", docs_bytes({0, 3, 9}));
  folder.write("d.mask", std::string(6, '\0') + std::string(4, '\1'));
}

TEST_F(Companions, AnotherTokenizerIsRefused) {
  const auto check = [&] { return check_tokenizer(open_token_data(tokens(), kVocabulary), kHash); };
  write_companions(folder_);
  EXPECT_TRUE(mentions(check(), "d.bin' says which tokenizer made it"));
  folder_.write("d.json", metadata(kHash));
  EXPECT_EQ(check(), "");
  folder_.write("d.json", metadata("xxh3-128:00000000000000000000000000000000"));
  const auto message = error_text<ConfigError>([&] { (void)check(); });
  EXPECT_TRUE(mentions(message, "xxh3-128:00000000000000000000000000000000")) << message;
  EXPECT_TRUE(mentions(message, kHash)) << message;
  EXPECT_TRUE(mentions(check_tokenizer(open_token_data(tokens(), kVocabulary), ""),
                       "the model has no tokenizer.json"));
  // Bytes of a text are of no tokenizer.
  EXPECT_EQ(check_tokenizer(open_token_data(folder_.write("a.txt", "text"), kVocabulary), ""), "");
}

TEST_F(Companions, MetadataOfOtherFilesAreRefused) {
  write_companions(folder_);
  folder_.write("d.json", metadata(kHash, 11));
  EXPECT_TRUE(mentions(refusal<FormatError>(), "d.json' is of 11 tokens, but there are 10"));
  folder_.write("d.json", metadata(kHash));
  folder_.write("d.docs", docs_bytes({0, 3}));
  EXPECT_TRUE(mentions(refusal<FormatError>(), "d.json' is of 3 documents, but there are 2"));
  for (std::size_t bytes = 40; bytes < metadata(kHash).size(); bytes += 10) {
    folder_.write("d.json", metadata(kHash).substr(0, bytes));
    EXPECT_TRUE(mentions(refusal<FormatError>(), "d.json' is damaged")) << bytes;
  }
  folder_.write("d.json", R"({"format": "strata tokens", "other": )" + std::string(200'000, '['));
  EXPECT_PRED2(mentions, refusal<FormatError>(), "d.json': its JSON is nested deeper than 100");
  folder_.write("d.json", R"({"format": "strata tokens", "version": 2})");
  EXPECT_TRUE(mentions(refusal<FormatError>(), "is of version 2"));
}

TEST_F(Companions, WhatTheMetadataSpeakOfHasToBeThere) {
  write_companions(folder_);
  folder_.write("d.json", metadata(kHash));
  EXPECT_EQ(open_token_data(tokens(), kVocabulary).trained_tokens, 4);
  std::filesystem::remove(folder_.path("d.mask"));
  EXPECT_PRED2(
      mentions, refusal<FormatError>(),
      "d.json' is of 10 tokens of which 4 are trained, but the .mask beside it is missing");
  write_companions(folder_);
  std::filesystem::remove(folder_.path("d.docs"));
  EXPECT_PRED2(mentions, refusal<FormatError>(),
               "d.json' is of 3 documents, but the .docs beside it is missing");
}

TEST_F(Companions, OtherJsonIsPassedBy) {
  const auto hash = [&] { return open_token_data(tokens(), kVocabulary).tokenizers.at(0).hash; };
  folder_.write("d.json", R"([{"text": "a"}])");  // that the tokens were made of
  EXPECT_EQ(hash(), "");
  const std::string filling(1 << 20, ' ');
  folder_.write("d.json", R"([{"text": "a)" + filling + R"(of strata tokens"}])");
  EXPECT_EQ(hash(), "");
  write_companions(folder_);
  folder_.write("d.json", metadata(kHash) + filling);
  EXPECT_PRED2(mentions, refusal<FormatError>(), "d.json' has 1048");
}

// A link to nothing, such as a mask on a drive that is not mounted, is not "no mask".
TEST_F(Companions, OneThatCannotBeOpenedIsRefused) {
  for (const char* const name : {"d.mask", "d.docs"}) {
    std::filesystem::create_symlink(folder_.path("nothing"), folder_.path(name));
    EXPECT_PRED2(mentions, refusal<ConfigError>(), folder_.path(name));
    std::filesystem::remove(folder_.path(name));
  }
}

}  // namespace
}  // namespace strata::engine

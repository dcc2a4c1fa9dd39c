// tokenizer.json decoded, against what the packages tokenizers and xxhash give for those in
// ../shared/data (scripts/make_tokenizer_goldens.py), and small ones.
#include "models/token_decoder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata::models {
namespace {

using nlohmann::json;

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string tokenizer_path(const std::string& name) {
  return STRATA_SOURCE_DIR "/../shared/data/tokenizers/" + name + "/tokenizer.json";
}

json goldens() {
  return json::parse(contents_of(STRATA_SOURCE_DIR "/tests/golden/tokenizers.json"));
}

std::string decode(const TokenizerFile& file, const std::vector<std::int32_t>& ids,
                   SpecialTokens special) {
  TokenDecoder decoder(file, special);
  std::string text;
  for (const std::int32_t id : ids) text += decoder.add(id);
  return text + decoder.finish();
}

std::string fnv1a(const std::string& text) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const char c : text) value = (value ^ static_cast<std::uint8_t>(c)) * 0x100000001B3;
  return fmt::format("{:016x}", value);
}

class SharedTokenizer : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = tokenizer_path(GetParam());
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no shared test data: " << path;
    file_ = TokenizerFile::parse(contents_of(path));
    golden_ = goldens()["tokenizers"][GetParam()];
  }

  TokenizerFile file_ = TokenizerFile::parse(R"({"model": {"vocab": {}}})");
  json golden_;
};

INSTANTIATE_TEST_SUITE_P(Tokenizers, SharedTokenizer, ::testing::Values("gpt2", "tok512"));

TEST_P(SharedTokenizer, HasTheHashThatPythonComputes) {
  EXPECT_EQ(file_.vocabulary_hash(), golden_["vocabulary_hash"]);
  EXPECT_EQ(file_.size(), golden_["size"]);
}

TEST_P(SharedTokenizer, DecodesEveryId) {
  constexpr std::int32_t kIdsOfAHash = 1000;
  const auto size = static_cast<std::int32_t>(file_.size());
  for (std::int32_t first = 0; first < size; first += kIdsOfAHash) {
    std::string text;
    for (std::int32_t id = first; id < std::min(first + kIdsOfAHash, size); ++id) {
      text += fmt::format("{} {}\n", id, decode(file_, {id}, SpecialTokens::show));
    }
    EXPECT_EQ(fnv1a(text), golden_["every_id"][first / kIdsOfAHash]) << "ids from " << first;
  }
}

// Texts with characters cut over several ids, and ids at random, whose bytes are often no UTF-8.
TEST_P(SharedTokenizer, DecodesSequences) {
  for (const json& sequence : golden_["sequences"]) {
    const auto ids = sequence["ids"].get<std::vector<std::int32_t>>();
    EXPECT_EQ(decode(file_, ids, SpecialTokens::skip), sequence["text"]);
    EXPECT_EQ(decode(file_, ids, SpecialTokens::show), sequence["with_special"]);
  }
}

// nlohmann-json refuses to write text that is no UTF-8.
TEST_P(SharedTokenizer, EachPieceOfTextIsWhole) {
  for (const json& sequence : golden_["sequences"]) {
    TokenDecoder decoder(file_, SpecialTokens::show);
    for (const json& id : sequence["ids"]) {
      EXPECT_NO_THROW(json(decoder.add(id.get<std::int32_t>())).dump());
    }
  }
}

// Models' vocabularies are often padded: tokenizers leaves such ids out.
TEST_P(SharedTokenizer, AnIdWithoutATokenIsNoText) {
  const auto past_the_end = static_cast<std::int32_t>(file_.size());
  for (const std::int32_t id : {past_the_end, -1}) {
    EXPECT_EQ(decode(file_, {id}, SpecialTokens::skip), "");
    EXPECT_EQ(decode(file_, {id, 300, id, 301}, SpecialTokens::show),
              decode(file_, {300, 301}, SpecialTokens::show));
  }
}

TEST(Utf8Stream, DecodesAnyBytesAsPython) {
  for (const json& sample : goldens()["utf8"]) {
    Utf8Stream stream;
    std::string text;
    for (const json& byte : sample[0]) text += stream.add(std::string(1, byte.get<char>()));
    EXPECT_EQ(text + stream.finish(), sample[1]);
  }
}

TEST(Utf8Stream, ACharacterComesOutWithItsLastByte) {
  Utf8Stream stream;
  EXPECT_EQ(stream.add("a\xE2\x82"), "a");
  EXPECT_EQ(stream.add("\xAC"
                       "b"),
            "€b");
  EXPECT_EQ(stream.finish(), "");
}

// A tokenizer.json with these tokens, numbered from 0 on, and this decoder.
TokenizerFile tokenizer(const std::vector<std::string>& tokens, const std::string& decoder) {
  json file = {{"model", {{"type", "BPE"}, {"vocab", json::object()}}},
               {"decoder", json::parse(decoder)}};
  for (std::size_t id = 0; id < tokens.size(); ++id) file["model"]["vocab"][tokens[id]] = id;
  return TokenizerFile::parse(file.dump());
}

// Expected: what tokenizers.decoders give.
TEST(TokenDecoder, MetaspaceLeavesOutTheSpacesOfTheFirstToken) {
  const std::string metaspace = R"({"type": "Metaspace", "replacement": "▁")";
  const std::vector<std::string> tokens = {"▁a▁b", "▁c"};
  const auto text = [&](const std::string& scheme) {
    return decode(tokenizer(tokens, metaspace + scheme), {0, 1}, SpecialTokens::show);
  };
  EXPECT_EQ(text(R"(, "prepend_scheme": "always"})"), "ab c");
  EXPECT_EQ(text(R"(, "prepend_scheme": "first"})"), "ab c");
  EXPECT_EQ(text(R"(, "prepend_scheme": "never"})"), " a b c");
  EXPECT_EQ(text(R"(, "add_prefix_space": false})"), " a b c");
  EXPECT_EQ(decode(tokenizer(tokens, metaspace + "}"), {7, 0, 1}, SpecialTokens::show), "ab c")
      << "an id without a token is not the first";
}

TEST(TokenDecoder, OneSpaceIsStrippedFromTheWholeText) {
  const std::string sentence_piece = R"({"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";
  const TokenizerFile file = tokenizer({"▁", "▁c", "<0x20>", "<0xE2>", "<0xZZ>"}, sentence_piece);
  EXPECT_EQ(decode(file, {0, 1}, SpecialTokens::show), " c");
  EXPECT_EQ(decode(file, {2, 1}, SpecialTokens::show), " c");
  EXPECT_EQ(decode(file, {1, 1}, SpecialTokens::show), "c c");
  EXPECT_EQ(decode(file, {3, 1, 4}, SpecialTokens::show), "\uFFFD c<0xZZ>");
}

TEST(TokenDecoder, OtherDecodersAreRefusedByName) {
  const auto refusal = [](const std::string& decoder) {
    return test::error_text<ConfigError>([&] { parse_decoder(decoder); });
  };
  const std::string strip = R"({"type": "Strip", "content": " ", "start": 1, "stop": 0})";
  const std::string replace = R"({"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""})";
  EXPECT_PRED2(test::mentions, refusal("null"), "decoder null is not supported");
  EXPECT_PRED2(test::mentions, refusal(R"({"type": "WordPiece"})"), "decoder WordPiece is not");
  EXPECT_PRED2(test::mentions, refusal(strip), "decoder Strip is not");  // of each token
  EXPECT_PRED2(test::mentions,
               refusal(R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, )" + replace + "]}"),
               "decoder Fuse, Replace is not");
  EXPECT_PRED2(test::mentions, refusal(replace), "Replace of {\"Regex\":\"a+\"} is not");
  EXPECT_PRED2(test::mentions, refusal(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
                          {"type": "Strip", "content": " ", "start": 0, "stop": 1}]})"),
               "Strip of other than spaces at the beginning is not");
  EXPECT_THROW(parse_decoder(std::string(200'000, '[')), FormatError);
}

}  // namespace
}  // namespace strata::models

// What a tokenizer.json has and what is none. Its hash and whole files are in
// token_decoder_test.cc.
#include "models/tokenizer_file.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata::models {
namespace {

TEST(TokenizerFile, AnAddedTokenWinsOverTheVocabulary) {
  const auto file = TokenizerFile::parse(R"({
      "model": {"vocab": {"a": 0, "old": 7}, "merges": [["a", "b"]]},
      "added_tokens": [{"id": 7, "content": "new", "special": true}, {"id": 9, "content": "x"}]})");
  EXPECT_EQ(file.size(), 3);
  EXPECT_EQ(file.find(0)->text, "a");
  EXPECT_EQ(file.find(7)->text, "new");
  EXPECT_TRUE(file.find(7)->special);
  EXPECT_FALSE(file.find(9)->special);
  for (const std::int32_t id : {-1, 1, 8, 10}) EXPECT_EQ(file.find(id), nullptr) << id;
}

// The hash is of ids and tokens alone. Expected: Python's xxhash.xxh3_128_hexdigest('0 a\n1
// é\n'.encode())
TEST(TokenizerFile, TheHashDoesNotDependOnHowTheFileIsWritten) {
  const std::string hash = "xxh3-128:8f0d7d79cd1cb868ac435dd39ac7e2d7";
  for (const char* const text :
       {R"({"model": {"vocab": {"a": 0, "é": 1}}})",
        R"({"decoder": null, "model":{"vocab":{"\u00e9":1,"a":0}}})",
        R"({"model": {"type": "Unigram", "vocab": [["a", -1.5], ["é", 0]]}})",
        R"({"model": {"vocab": {"a": 0}},
                                     "added_tokens": [{"id": 1, "content": "é"}]})"}) {
    EXPECT_EQ(TokenizerFile::parse(text).vocabulary_hash(), hash) << text;
  }
  const auto other = TokenizerFile::parse(R"({"model": {"vocab": {"a": 1, "é": 0}}})");
  EXPECT_NE(other.vocabulary_hash(), hash);
}

TEST(TokenizerFile, WhatIsNoneIsRefused) {
  const auto refusal = [](const std::string& text) {
    return test::error_text<FormatError>([&] { TokenizerFile::parse(text); });
  };
  EXPECT_PRED2(test::mentions, refusal("{"), "no JSON object");
  EXPECT_PRED2(test::mentions, refusal("[]"), "no JSON object");
  EXPECT_PRED2(test::mentions, refusal("{}"), "no model.vocab");
  EXPECT_PRED2(test::mentions, refusal(R"({"model": {"vocab": {"a": -1}}})"), "token 'a'");
  EXPECT_PRED2(test::mentions, refusal(R"({"model": {"vocab": {"a": 16777216}}})"), "token 'a'");
  EXPECT_PRED2(test::mentions, refusal(R"({"model": {"vocab": {"a": 1.5}}})"), "token 'a'");
  EXPECT_PRED2(test::mentions, refusal(R"({"model": {"vocab": {"a": 3, "b": 3}}})"),
               "'a' and 'b' have the id 3");
  EXPECT_PRED2(test::mentions, refusal(R"({"model": {"vocab": [["a"], "b"]}})"), "model.vocab");
  EXPECT_PRED2(test::mentions, refusal(R"({"model": {"vocab": {}}, "added_tokens": [{"id": 1}]})"),
               "added_tokens");
  EXPECT_PRED2(test::mentions, refusal(R"({"model": {"vocab": {}}, "added_tokens": [
                          {"id": 1, "content": "a"}, {"id": 1, "content": "b"}]})"),
               "two tokens with the id 1");
  EXPECT_PRED2(test::mentions,
               refusal(std::string(static_cast<std::size_t>(kTokenizerFileBytesMax) + 1, ' ')),
               "longer than");
}

// Deep enough that a parser, writer or destructor that recurses would overflow the stack.
TEST(TokenizerFile, WhatIsNestedDeeplyIsRefused) {
  constexpr int kDepth = 200'000;
  const std::string nested = std::string(kDepth, '[') + std::string(kDepth, ']');
  for (const std::string& text :
       {nested, R"({"model": {"vocab": {}}, "decoder": )" + nested + "}",
        R"({"model": {"vocab": {}, "merges": )" + nested + "}}", std::string(kDepth, '[')}) {
    EXPECT_PRED2(test::mentions, test::error_text<FormatError>([&] { TokenizerFile::parse(text); }),
                 "nested deeper than 100");
  }
}

}  // namespace
}  // namespace strata::models

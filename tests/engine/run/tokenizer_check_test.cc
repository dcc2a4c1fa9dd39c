// The tokenizer of a model's folder against that of data.
#include "engine/run/tokenizer_check.h"

#include <gtest/gtest.h>

#include "kernels/base/error.h"
#include "tests/engine/data/token_test_files.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;

// From Python: xxhash.xxh3_128_hexdigest(b"0 a\n1 b\n").
constexpr const char* kHash = "xxh3-128:c9eb53980e721828eed69facee57fd2f";

class TokenizerCheck : public ::testing::Test {
 protected:
  TokenizerCheck() {
    folder_.write("config.json", "{}");
    setup_.source.files_folder = folder_.path();
    data_.file.tokenizers = {{"d.bin", kHash}};
  }
  void write_tokenizer(const std::string& text) { folder_.write("tokenizer.json", text); }
  std::string check() const { return check_tokenizer(setup_, data_); }

  test::DataFolder folder_;
  RunSetup setup_;
  TrainingData data_;
};

TEST_F(TokenizerCheck, TheModelsIsThatOfTheData) {
  write_tokenizer(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");
  EXPECT_EQ(check(), "");
  write_tokenizer(R"({"model": {"type": "BPE", "vocab": {"a": 1, "b": 0}, "merges": []}})");
  const auto message = error_text<ConfigError>([&] { (void)check(); });
  EXPECT_PRED2(mentions, message, "--data: 'd.bin' was made with a tokenizer of vocabulary");
}

TEST_F(TokenizerCheck, WhatCannotBeCheckedIsTold) {
  EXPECT_PRED2(mentions, check(), "the model has no tokenizer.json");
  data_.file.tokenizers.clear();  // text
  EXPECT_EQ(check(), "");
}

// It is the model's file that is damaged, not the data.
TEST_F(TokenizerCheck, ADamagedFileOfTheModelIsNamed) {
  write_tokenizer("{");
  const auto message = error_text<FormatError>([&] { (void)check(); });
  EXPECT_PRED2(mentions, message, folder_.path("tokenizer.json") + "': ");
  EXPECT_FALSE(mentions(message, "--data"));
}

}  // namespace
}  // namespace strata::engine

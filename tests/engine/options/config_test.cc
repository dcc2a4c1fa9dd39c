// Config files as text: both syntaxes, quoting, comments, and errors with their line.
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/options/config_file.h"
#include "engine/options/option_check.h"
#include "engine/options/option_parse.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

const CommandSyntax kTrain{"train", "", CommandKind::train};

using test::error_text;
using test::mentions;

std::string error_of(std::string_view text) {
  return error_text<ConfigError>([&] { parse_config(text, "c.toml"); });
}

TEST(ConfigFile, ReadsLines) {
  const auto entries = parse_config(
      "# how we train\n"
      "lr = 3e-4\n"
      "\n"
      "  global-batch=8   # sequences\r\n"
      "data = \"a \\\"#b\\\".txt\"  # quoted\n"
      "sample_prompt = 'C:\\n'\n"
      "nvme = \"\"",
      "c.toml");
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[0].key, "lr");
  EXPECT_EQ(entries[0].value, "3e-4");
  EXPECT_EQ(entries[0].where, "c.toml:2");
  EXPECT_EQ(entries[1].key, "global-batch");
  EXPECT_EQ(entries[1].value, "8");
  EXPECT_EQ(entries[1].where, "c.toml:4");
  EXPECT_EQ(entries[2].value, "a \"#b\".txt");
  EXPECT_EQ(entries[3].value, "C:\\n");
  EXPECT_EQ(entries[4].value, "");
}

TEST(ConfigFile, ReadsAFlatJsonObject) {
  const auto entries = parse_config(
      "\n{\"lr\": 0.0003, \"steps\": 12, \"json\": true, \"data\": \"t.txt\"}", "c.json");
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].key, "lr");
  EXPECT_EQ(entries[0].value, "0.0003");
  EXPECT_EQ(entries[0].where, "c.json");
  EXPECT_EQ(entries[1].value, "12");
  EXPECT_EQ(entries[2].value, "true");
  EXPECT_EQ(entries[3].value, "t.txt");
}

TEST(ConfigFile, AnEmptyFileHasNoEntries) {
  EXPECT_TRUE(parse_config("", "c.toml").empty());
  EXPECT_TRUE(parse_config("\n  # nothing\n", "c.toml").empty());
  EXPECT_TRUE(parse_config("{}", "c.json").empty());
}

TEST(ConfigFile, ErrorsNameTheLine) {
  EXPECT_PRED2(mentions, error_of("lr = 1\nsteps 5\n"), "c.toml:2: 'steps 5' is not of the form");
  EXPECT_PRED2(mentions, error_of("[optimizer]\nlr = 1\n"), "c.toml:1: sections");
  EXPECT_PRED2(mentions, error_of("lr =\n"), "c.toml:1: the value is missing");
  EXPECT_PRED2(mentions, error_of("= 3\n"), "c.toml:1: the option is missing");
  EXPECT_PRED2(mentions, error_of("data = \"a\n"), "c.toml:1: the closing \" is missing");
  EXPECT_PRED2(mentions, error_of("data = \"a\" b\n"), "c.toml:1: unexpected 'b'");
  EXPECT_PRED2(mentions, error_of("data = \"\\x\"\n"), "c.toml:1: a \\");
  EXPECT_PRED2(mentions, error_of("lr = 1\nlr = 2\n"), "c.toml:2: 'lr' is given twice");
}

TEST(ConfigFile, JsonErrorsNameTheFileAndKey) {
  EXPECT_PRED2(mentions, error_of("{\"lr\": 1"), "c.toml: not valid JSON");
  EXPECT_PRED2(mentions, error_of("{\"lr\": 1, \"lr\": 2}"), "'lr' is given twice");
  EXPECT_PRED2(mentions, error_of("{\"optimizer\": {\"lr\": 1}}"), "the value of 'optimizer'");
  EXPECT_PRED2(mentions, error_of("{\"no_decay\": null}"), "the value of 'no_decay'");
}

TEST(ConfigFile, TheExamplesAreOptions) {
  int examples = 0;
  for (const auto& file : std::filesystem::directory_iterator(STRATA_SOURCE_DIR "/examples")) {
    if (file.path().extension() != ".toml") continue;
    const Options options = parse_options(kTrain, {"--config", file.path().string()});
    EXPECT_NO_THROW(check_training_options(options)) << file.path();
    ++examples;
  }
  EXPECT_GT(examples, 0);
}

TEST(ConfigFile, AMissingFileIsNamed) {
  EXPECT_PRED2(mentions, error_text<ConfigError>([] { read_config_file("/nonexistent/a.toml"); }),
               "/nonexistent/a.toml: No such file or directory");
}

}  // namespace
}  // namespace strata::engine

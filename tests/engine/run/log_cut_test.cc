// The log of a run that goes on: each step once, nothing else lost, damage named.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/run/log_cut.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::contents_of;
using test::error_text;
using test::mentions;
using test::TemporaryFolder;

std::string line(int step) { return "{\"step\":" + std::to_string(step) + ",\"loss\":0.5}\n"; }

std::string cut(const std::string& text, std::int64_t step) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("log.jsonl"), std::ios::binary) << text;
  cut_log(folder.path("log.jsonl"), step);
  EXPECT_FALSE(std::filesystem::exists(folder.path("log.jsonl.new")));
  return contents_of(folder.path("log.jsonl"));
}

TEST(CutLog, KeepsTheLinesUpToTheStep) {
  const std::string all = line(0) + line(1) + line(2) + line(3);
  EXPECT_EQ(cut(all, 2), line(0) + line(1) + line(2));
  EXPECT_EQ(cut(all, 0), line(0));
  EXPECT_EQ(cut(all, 7), all);
  EXPECT_EQ(cut(all, -1), "");
  EXPECT_EQ(cut("", 5), "");
}

// Of a step that was evaluated later.
TEST(CutLog, FillsInAValidationLoss) {
  const TemporaryFolder folder;
  const std::string path = folder.path("log.jsonl");
  const auto evaluated = [](int step, const std::string& loss) {
    return "{\"step\":" + std::to_string(step) + ",\"val_loss\":" + loss + ",\"lr\":0.1}\n";
  };
  std::ofstream(path) << evaluated(1, "2.5") << evaluated(2, "null") << evaluated(3, "null");
  EXPECT_FALSE(lacks_validation(path, 1));
  EXPECT_TRUE(lacks_validation(path, 2));
  EXPECT_FALSE(lacks_validation(path, 4));
  EXPECT_FALSE(lacks_validation(folder.path("no log"), 2));
  cut_log(path, 2, 1.25);
  EXPECT_EQ(contents_of(path), evaluated(1, "2.5") + evaluated(2, "1.25"));
  cut_log(path, 2, 7.0);
  EXPECT_EQ(contents_of(path), evaluated(1, "2.5") + evaluated(2, "1.25"));
}

TEST(CutLog, ALastLineThatIsTornGoes) {
  const std::string good = line(0) + line(1);
  for (const std::string& torn : {std::string("{\"step\":2,\"lo"), std::string("{\"st\n"),
                                  std::string(300, '\0'), std::string("\n")}) {
    EXPECT_EQ(cut(good + torn, 5), good) << torn;
  }
}

TEST(CutLog, ALastLineThatOnlyLacksItsEndIsKept) {
  const std::string last = line(1);
  EXPECT_EQ(cut(line(0) + last.substr(0, last.size() - 1), 5), line(0) + last);
}

TEST(CutLog, DamageElsewhereIsNamedAndChangesNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.path("log.jsonl");
  for (const std::string bad : {"{\"step\":\n", "\n", "{\"loss\":1}\n", "[1]\n"}) {
    const std::string text = line(0) + bad + line(2);
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_PRED2(mentions, error_text<FormatError>([&] { cut_log(path, 5); }), path + ":2: ");
    EXPECT_EQ(contents_of(path), text);
    EXPECT_FALSE(std::filesystem::exists(path + ".new"));
  }
}

TEST(CutLog, WithoutALogThereIsNothingToCut) {
  const TemporaryFolder folder;
  EXPECT_NO_THROW(cut_log(folder.path("log.jsonl"), 5));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace strata::engine

#include "engine/data/data_paths.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/error.h"
#include "tests/engine/data/token_test_files.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;
using Paths = std::vector<std::string>;

TEST(DataPaths, AListKeepsItsOrderAndPatternsSortByName) {
  const test::DataFolder folder;
  for (const char* name : {"b10.bin", "b2.bin", "B1.bin", "a.txt", "c.bin"}) folder.write(name, "");
  EXPECT_EQ(expand_data_paths(folder.path("a.txt")), Paths{folder.path("a.txt")});
  EXPECT_EQ(expand_data_paths(folder.path("*.bin")),
            (Paths{folder.path("B1.bin"), folder.path("b10.bin"), folder.path("b2.bin"),
                   folder.path("c.bin")}));
  EXPECT_EQ(expand_data_paths(folder.path("c.bin") + "," + folder.path("[ab]?.bin") + "," +
                              folder.path("absent")),
            (Paths{folder.path("c.bin"), folder.path("b2.bin"), folder.path("absent")}));
}

TEST(DataPaths, NamesThatExistAreTakenAsTheyAre) {
  const test::DataFolder folder;
  const std::string bracket = folder.write("a[1].bin", "");
  const std::string comma = folder.write("b,c.bin", "");
  folder.write("a1.bin", "");
  EXPECT_EQ(expand_data_paths(bracket), Paths{bracket});
  EXPECT_EQ(expand_data_paths(comma), Paths{comma});
  EXPECT_EQ(expand_data_paths(folder.path("b*")), Paths{comma});
}

TEST(DataPaths, WhatNamesNothingIsRefused) {
  const test::DataFolder folder;
  const auto refused = [](const std::string& text) {
    return error_text<ConfigError>([&] { (void)expand_data_paths(text); });
  };
  EXPECT_TRUE(mentions(refused(folder.path("*.bin")), "no file matches '"));
  EXPECT_TRUE(mentions(refused("a.bin,,b.bin"), "'a.bin,,b.bin' has an empty name"));
  EXPECT_TRUE(mentions(refused("a.bin,"), "empty name"));
  EXPECT_TRUE(mentions(refused(""), "empty name"));
}

TEST(DataPaths, AFolderThatMayNotBeListedIsNotAnEmptyOne) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may list any folder";
  const test::DataFolder folder;
  const std::string closed = folder.make_folder("closed");
  ASSERT_EQ(::chmod(closed.c_str(), 0), 0);
  const auto message = error_text<ConfigError>([&] { (void)expand_data_paths(closed + "/*"); });
  EXPECT_TRUE(mentions(message, "cannot list")) << message;
}

TEST(DataPaths, UntokenizedRecordsAreRefusedByWhatToDo) {
  const test::DataFolder folder;
  for (const char* name : {"a.jsonl", "a.json", "a.parquet", "a.arrow", "a.JSONL", "a.ndjson"}) {
    const std::string path = folder.write(name, "{}");
    const Paths texts = {path, folder.path(std::string(name).substr(0, 4) + "*"), "x.bin," + path};
    for (const std::string& text : texts) {
      const auto message = error_text<ConfigError>([&] { (void)expand_data_paths(text); });
      EXPECT_TRUE(mentions(message, "'" + path + "' has no tokens")) << message;
      EXPECT_FALSE(mentions(message, "\n"));
    }
    std::filesystem::remove(path);
  }
  EXPECT_EQ(expand_data_paths("a.jsonl_text_document"), Paths{"a.jsonl_text_document"});
}

// A byte-level model would train on the bytes.
TEST(DataPaths, TablesAndArchivesAreRefused) {
  for (const char* const name : {"a.csv", "a.CSV", "a.jsonl.gz", "a.tar.zst"}) {
    const auto message = error_text<ConfigError>([&] { (void)expand_data_paths(name); });
    EXPECT_PRED2(mentions, message, std::string("'") + name + "' is a table or an archive");
  }
}

}  // namespace
}  // namespace strata::engine

// store.json: what is written is read, and what cannot be used is refused by name.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/checkpoint/store_pointer.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::contents_of;
using test::error_text;
using test::mentions;
using test::TemporaryFolder;

constexpr const char* kRunId = "00112233445566778899aabbccddeeff";

std::string error_of(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("store.json")) << text;
  const std::string error = error_text<FormatError>([&] { read_store_pointer(folder.path()); });
  EXPECT_TRUE(error.starts_with(folder.path("store.json"))) << error;
  return error;
}

TEST(StorePointer, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_store_pointer(folder.path()).has_value());
  replace_store_pointer(folder.path(), {kRunId, {{"one", {"/a"}}}});
  replace_store_pointer(folder.path(), {kRunId, {{"one", {"/a", "/b \"c\""}}, {"two", {"/ü"}}}});

  const std::optional<StorePointer> pointer = read_store_pointer(folder.path());
  ASSERT_TRUE(pointer.has_value());
  EXPECT_EQ(pointer->run_id, kRunId);
  ASSERT_EQ(pointer->world_size(), 2);
  EXPECT_EQ(pointer->ranks[0].host, "one");
  EXPECT_EQ(pointer->ranks[0].directories, (std::vector<std::string>{"/a", "/b \"c\""}));
  EXPECT_EQ(pointer->ranks[1].host, "two");
  EXPECT_EQ(pointer->ranks[1].directories, (std::vector<std::string>{"/ü"}));
}

TEST(StorePointer, IsDocumentedJson) {
  const TemporaryFolder folder;
  replace_store_pointer(folder.path(), {kRunId, {{"one", {"/a"}}}});
  const nlohmann::json expected = {{"format_version", 1},
                                   {"run_id", kRunId},
                                   {"ranks", {{{"host", "one"}, {"directories", {"/a"}}}}}};
  EXPECT_EQ(nlohmann::json::parse(contents_of(folder.path("store.json"))), expected);
}

TEST(StorePointer, WhatIsNoneIsRefusedByName) {
  EXPECT_PRED2(mentions, error_of(""), "does not name a store");
  EXPECT_PRED2(mentions, error_of("{\"format_version\": 1"), "does not name a store");
  EXPECT_PRED2(mentions, error_of("{\"format_version\": 1}"), "run_id");
  EXPECT_PRED2(mentions, error_of("{\"format_version\": 2}"), "version 2; this program reads 1");
  const std::string start = std::string("{\"format_version\": 1, \"run_id\": \"") + kRunId;
  EXPECT_PRED2(mentions, error_of("{\"format_version\": 1, \"run_id\": \"12\", \"ranks\": []}"),
               "'12' is not a run id");
  EXPECT_PRED2(mentions, error_of(start + "\", \"ranks\": []}"), "names no ranks");
  EXPECT_PRED2(mentions,
               error_of(start + "\", \"ranks\": [{\"host\": \"a\", \"directories\": []}]}"),
               "a rank has no directories");
  EXPECT_PRED2(mentions, error_of(start + "\", \"ranks\": [{\"host\": \"a\"}]}"), "directories");
}

// It would begin a run anew, beside its state.
TEST(StorePointer, OneThatCannotBeReadIsNotAbsent) {
  const TemporaryFolder folder;
  folder.make_folder("store.json");
  EXPECT_PRED2(mentions, error_text<IoError>([&] { read_store_pointer(folder.path()); }),
               "read " + folder.path("store.json") + ": Is a directory");
}

TEST(StorePointer, IsSentAsText) {
  const StorePointer pointer = {kRunId, {{"one", {"/a", "/b"}}, {"two", {"/c"}}}};
  const StorePointer again = parse_store_pointer(text_of(pointer), "store.json");
  EXPECT_EQ(again.run_id, kRunId);
  ASSERT_EQ(again.world_size(), 2);
  EXPECT_EQ(again.ranks[0].directories, pointer.ranks[0].directories);
  EXPECT_EQ(again.ranks[1].host, "two");
}

TEST(StorePointer, IsRemoved) {
  const TemporaryFolder folder;
  replace_store_pointer(folder.path(), {kRunId, {{"one", {"/a"}}}});
  remove_store_pointer(folder.path());
  EXPECT_FALSE(read_store_pointer(folder.path()).has_value());
}

TEST(StorePointer, ADirectoryThatIsNotTextIsRefusedAndTheOldPointerStays) {
  const TemporaryFolder folder;
  replace_store_pointer(folder.path(), {kRunId, {{"one", {"/a"}}}});
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] {
                 replace_store_pointer(folder.path(), {kRunId, {{"one", {"/\xff"}}}});
               }),
               "UTF-8");
  EXPECT_EQ(read_store_pointer(folder.path())->ranks[0].directories.front(), "/a");
}

}  // namespace
}  // namespace strata::engine

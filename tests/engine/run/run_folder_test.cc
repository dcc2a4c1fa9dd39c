// The run's folder: refused when used, gone on with when asked, of one process at a time, complete
// when kept, gone when the run fails before.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "engine/run/run_folder.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::contents_of;
using test::error_text;
using test::mentions;
using test::TemporaryFolder;

namespace fs = std::filesystem;

TEST(RunFolder, AUsedPathIsRefusedAndNotTouched) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path("used"));
  std::ofstream(folder.path("used/log.jsonl")) << "{}\n";
  std::ofstream(folder.path("file")) << "text";
  for (const std::string name : {"used", "file"}) {
    const auto create = [&] { RunFolder run(folder.path(name), FolderUse::begin); };
    EXPECT_PRED2(mentions, error_text<ConfigError>(create), "--run " + folder.path(name));
    EXPECT_PRED2(mentions, error_text<ConfigError>(create), "choose another");
  }
  EXPECT_EQ(contents_of(folder.path("used/log.jsonl")), "{}\n");
  EXPECT_EQ(contents_of(folder.path("file")), "text");
}

TEST(RunFolder, CheckingCreatesNothing) {
  const TemporaryFolder folder;
  EXPECT_NO_THROW(check_run_folder(folder.path("new/run"), FolderUse::begin));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(RunFolder, AFailedRunLeavesNothing) {
  const TemporaryFolder folder;
  {
    RunFolder run(folder.path("runs/first/"), FolderUse::begin);
    run.write_options({});
    run.write_arithmetic("{}");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));  // the parent that was made for it is gone as well
}

TEST(RunFolder, AFailedRunLeavesTheFilesOfOthers) {
  const TemporaryFolder folder;
  {
    RunFolder run(folder.path("runs/first"), FolderUse::begin);
    run.write_options({});
    std::ofstream(folder.path("runs/other")) << "text";
  }
  EXPECT_FALSE(fs::exists(folder.path("runs/first")));
  EXPECT_EQ(contents_of(folder.path("runs/other")), "text");
}

TEST(RunFolder, AnEmptyDirectoryIsUsedAndLeftEmptyByAFailedRun) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path("run"));
  { RunFolder(folder.path("run"), FolderUse::begin).write_plan("{}"); }
  EXPECT_TRUE(fs::is_directory(folder.path("run")));
  EXPECT_TRUE(fs::is_empty(folder.path("run")));
}

TEST(RunFolder, AKeptFolderStays) {
  const TemporaryFolder folder;
  {
    RunFolder run(folder.path("run"), FolderUse::begin);
    run.write_plan("{\"fits\": true}\n");
    run.keep();
  }
  EXPECT_EQ(contents_of(folder.path("run/plan.json")), "{\"fits\": true}\n");
}

TEST(RunFolder, AUsedFolderIsGoneOnWithOnlyWhenAsked) {
  const TemporaryFolder folder;
  const std::string path = folder.path("run");
  {
    RunFolder run(path, FolderUse::go_on);  // there is none yet
    EXPECT_FALSE(run.has_run());
    run.write_options({});
    run.keep();
  }
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { RunFolder run(path, FolderUse::begin); }),
               "--run " + path + ": there is a run in this folder; go on with it by --resume");
  EXPECT_NO_THROW(check_run_folder(path, FolderUse::go_on));
  { EXPECT_TRUE(RunFolder(path, FolderUse::go_on).has_run()); }
  EXPECT_TRUE(fs::exists(path + "/options.json"));  // though the second run was not kept
}

TEST(RunFolder, WhatIsNoRunIsNotGoneOnWith) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path("other"));
  std::ofstream(folder.path("other/thesis.tex")) << "text";
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] {
                 RunFolder run(folder.path("other"), FolderUse::go_on);
               }),
               "no run in it: options.json is missing");
  EXPECT_FALSE(fs::exists(folder.path("other/lock")));
}

TEST(RunFolder, WhatAKilledStartLeftIsNoRun) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("lock")) << "process 1 on a\n";
  std::ofstream(folder.path("options.json.new")) << "{\"mo";
  std::ofstream(folder.path("strata-00112233445566778899aabbccddeeff-rank1.store")) << "STRATA";
  RunFolder run(folder.path(), FolderUse::begin);
  EXPECT_FALSE(run.has_run());
  run.write_options({});
  EXPECT_FALSE(fs::exists(folder.path("options.json.new")));
}

TEST(RunFolder, IsOfOneProcessAtATime) {
  const TemporaryFolder folder;
  const std::string path = folder.path("run");
  std::optional<RunFolder> first(std::in_place, path, FolderUse::begin);
  first->write_options({});
  first->keep();
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { RunFolder run(path, FolderUse::go_on); }),
               "--run " + path + ": in use by process " + std::to_string(::getpid()) + " on ");
  EXPECT_TRUE(fs::exists(path + "/options.json"));
  first.reset();
  EXPECT_NO_THROW(RunFolder(path, FolderUse::go_on));
}

TEST(RunFolder, TheLogIsCut) {
  const TemporaryFolder folder;
  RunFolder run(folder.path("run"), FolderUse::begin);
  run.cut_log(3);  // there is none
  std::ofstream(run.log_path()) << "{\"step\":1}\n{\"step\":2}\n{\"st";
  run.cut_log(1);
  EXPECT_EQ(contents_of(run.log_path()), "{\"step\":1}\n");
}

TEST(RunFolder, AFolderThatCannotBeCreatedIsNamed) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("file"));
  EXPECT_PRED2(mentions,
               error_text<Error>([&] { RunFolder run(folder.path("file/run"), FolderUse::begin); }),
               folder.path("file/run"));
}

}  // namespace
}  // namespace strata::engine

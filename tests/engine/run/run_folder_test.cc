// The run's folder: refused when used, complete when kept, gone when the run fails before.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/options/option_list.h"
#include "engine/options/option_parse.h"
#include "engine/run/run_folder.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

const CommandSyntax kTrain{"train", "", CommandKind::train};

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
    const auto create = [&] { RunFolder run(folder.path(name)); };
    EXPECT_PRED2(mentions, error_text<ConfigError>(create), "--run " + folder.path(name));
    EXPECT_PRED2(mentions, error_text<ConfigError>(create), "choose another");
  }
  EXPECT_EQ(contents_of(folder.path("used/log.jsonl")), "{}\n");
  EXPECT_EQ(contents_of(folder.path("file")), "text");
}

TEST(RunFolder, CheckingCreatesNothing) {
  const TemporaryFolder folder;
  EXPECT_NO_THROW(check_run_folder(folder.path("new/run")));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(RunFolder, AFailedRunLeavesNothing) {
  const TemporaryFolder folder;
  {
    RunFolder run(folder.path("runs/first/"));
    run.write_options({});
    run.write_arithmetic("{}");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));  // the parent that was made for it is gone as well
}

TEST(RunFolder, AFailedRunLeavesTheFilesOfOthers) {
  const TemporaryFolder folder;
  {
    RunFolder run(folder.path("runs/first"));
    run.write_options({});
    std::ofstream(folder.path("runs/other")) << "text";
  }
  EXPECT_FALSE(fs::exists(folder.path("runs/first")));
  EXPECT_EQ(contents_of(folder.path("runs/other")), "text");
}

TEST(RunFolder, AnEmptyDirectoryIsUsedAndLeftEmptyByAFailedRun) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path("run"));
  { RunFolder(folder.path("run")).write_plan("{}"); }
  EXPECT_TRUE(fs::is_directory(folder.path("run")));
  EXPECT_TRUE(fs::is_empty(folder.path("run")));
}

TEST(RunFolder, AKeptFolderStays) {
  const TemporaryFolder folder;
  {
    RunFolder run(folder.path("run"));
    run.write_plan("{\"fits\": true}\n");
    run.keep();
  }
  EXPECT_EQ(contents_of(folder.path("run/plan.json")), "{\"fits\": true}\n");
}

TEST(RunFolder, OptionsAreReadBackAsAConfigFile) {
  const TemporaryFolder folder;
  Options options;
  options.model = "gpt2-124m";
  options.data = "1e5";  // a file name that is also a number
  options.host_memory = 12345;
  options.lr = 0.1 + 0.2;
  options.sample_prompt = "a\n\\b";
  options.no_decay = {"x.*", "y"};
  options.recompute = false;
  options.json = true;
  RunFolder run(folder.path("run"));
  run.write_options(options);

  const Options again = parse_options(kTrain, {"--config", run.path() + "/options.json"});
  const auto json = nlohmann::json::parse(contents_of(run.path() + "/options.json"));
  for (const OptionSpec& spec : option_list()) {
    EXPECT_EQ(spec.get(again), spec.get(options)) << spec.name;
    EXPECT_EQ(json.contains(spec.name),
              spec.used_by.contains(CommandKind::train) && !spec.of_a_start)
        << spec.name;
  }
  EXPECT_TRUE(json.at("lr").is_number());
  EXPECT_TRUE(json.at("data").is_string());
  EXPECT_EQ(json.at("json"), true);
}

TEST(RunFolder, AFolderThatCannotBeCreatedIsNamed) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("file"));
  EXPECT_PRED2(mentions, error_text<Error>([&] { RunFolder run(folder.path("file/run")); }),
               folder.path("file/run"));
}

}  // namespace
}  // namespace strata::engine

// --checkpoint-to and --export of runs: what is copied when, what is refused before training, and
// whose folders are left alone.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 12;
const Words kCopied = {"--checkpoint-to", "copies", "--checkpoint-keep", "2"};

class PortableCopiesOfRuns : public DurableRuns {
 protected:
  PortableCopiesOfRuns() : DurableRuns(kSteps) {}
};

TEST_F(PortableCopiesOfRuns, ACommitWithoutACopyIsCopiedWhenTheRunGoesOn) {
  complete("run", {});
  complete("run", kCopied + Words{"--resume"});
  expect_intact("copies/step-00000012");
  fs::remove_all(path("copies"));
  complete("run", kCopied + Words{"--resume"});
  expect_intact("copies/step-00000012");
  const auto written = fs::last_write_time(path("copies/step-00000012/strata.json"));
  complete("run", kCopied + Words{"--resume"});  // and a copy that is there is not made again
  EXPECT_EQ(fs::last_write_time(path("copies/step-00000012/strata.json")), written);
  complete("run", kCopied + Words{"--resume", "--steps", "13", "--allow-change", "steps"});
  expect_intact("copies/step-00000013");
}

TEST_F(PortableCopiesOfRuns, WhatCannotBeWrittenIsRefusedBeforeTraining) {
  std::ofstream(path("afile")) << "text";
  fs::create_directory(path("taken"));
  expect_refused("run", {"--checkpoint-to", "afile"}, 2, {"--checkpoint-to afile", "directory"});
  expect_refused("run", {"--checkpoint-to", "afile/in"}, 2, {"--checkpoint-to afile/in"});
  expect_refused("run", {"--export", "taken"}, 2, {"--export taken", "exists already"});
  expect_refused("run", {"--export", "afile"}, 2, {"--export afile", "exists already"});
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(PortableCopiesOfRuns, WhatAnotherRunWroteIsRefused) {
  complete("first", kCopied + Words{"--export", "model"});
  expect_refused("second", kCopied, 2, {"step-00000012 is of another run", path("first")});
  expect_refused("second", {"--export", "model"}, 2, {"exists already"});
  complete("first", {"--resume", "--export", "model"});  // its own is replaced
  expect_intact("model");
}

TEST_F(PortableCopiesOfRuns, AnExportTellsWhatItWroteAsJson) {
  complete("run", {});
  const test::ProcessResult exported = strata({"export", "run", "model", "--json"});
  EXPECT_EQ(exported.exit_code, 0) << exported.err;
  const auto told = nlohmann::json::parse(exported.out);
  EXPECT_EQ(told["folder"], "model");
  EXPECT_EQ(told["step"], kSteps);
}

// Rank 0 looks at 20,000 files before it makes the folder; the other one is there long before.
TEST_F(PortableCopiesOfRuns, RanksExportIntoAFolderWithManyFiles) {
  if (!obstacle_to_ranks().empty()) GTEST_SKIP() << obstacle_to_ranks();
  fs::create_directory(path("many"));
  for (int i = 0; i < 20'000; ++i) std::ofstream file(path("many/" + std::to_string(i)));
  complete("run", {"--export", "many/model", "--checkpoint-to", "many"}, 2);
  expect_intact("many/model");
  expect_intact("many/step-00000012");
}

}  // namespace
}  // namespace strata::engine

// --export-every and --export-keep: models written beside the folder of --export while a run goes
// on.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/engine/run/durable_runs.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 12;
const Words kExported = {"--export", "models/m", "--lr-schedule", "constant", "--warmup", "0"};
const Words kEvery6 = kExported + Words{"--export-every", "6"};

class ModelSnapshots : public DurableRuns {
 protected:
  ModelSnapshots() : DurableRuns(kSteps) { fs::create_directory(path("models")); }

  // What is in the folder of models, in order.
  Words models() const {
    Words names;
    for (const auto& entry : fs::directory_iterator(path("models"))) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }
  std::string model_of(const std::string& folder) const {
    return test::contents_of(path(folder + "/model.safetensors"));
  }
};

TEST_F(ModelSnapshots, ASnapshotIsTheModelOfItsStep) {
  complete("run", kEvery6);
  EXPECT_EQ(models(), (Words{"m", "m-step-00000006"}));
  expect_intact("models/m-step-00000006");
  const auto index =
      nlohmann::json::parse(test::contents_of(path("models/m-step-00000006/strata.json")));
  EXPECT_EQ(index["step"], 6);
  EXPECT_EQ(index["content"], "weights");
  for (const char* const model : {"m", "m-step-00000006"}) {  // they are for others
    const std::string text = test::contents_of(path(fmt::format("models/{}/strata.json", model)));
    EXPECT_FALSE(test::mentions(text, folder_.path()) || test::mentions(text, "text.txt")) << text;
  }
  complete("short", kExported + Words{"--steps", "6", "--export", "short-model"});
  EXPECT_TRUE(model_of("models/m-step-00000006") == model_of("short-model"));
  EXPECT_FALSE(model_of("models/m-step-00000006") == model_of("models/m"));
}

// Its commit is durable during the last step, so that it is written at the end of training.
TEST_F(ModelSnapshots, OneOfTheStepBeforeTheLastIsWritten) {
  complete("run", kExported + Words{"--export-every", "11"});
  EXPECT_EQ(models(), (Words{"m", "m-step-00000011"}));
  expect_intact("models/m-step-00000011");
}

TEST_F(ModelSnapshots, ARunThatGoesOnWritesWhatIsMissingAndKeepsTheNewest) {
  complete("run", kEvery6);
  fs::remove_all(path("models"));
  const Words longer = {"--resume", "--steps",       "13", "--allow-change",
                        "steps",    "--export-keep", "1"};
  complete("run", kEvery6 + longer);
  EXPECT_EQ(models(), (Words{"m", "m-step-00000012"}));
  fs::create_directory(path("models/m-step-mine"));  // is none of ours
  const Words longest = {"--resume", "--steps",       "40", "--allow-change",
                         "steps",    "--export-keep", "1"};
  complete("run", kEvery6 + longest);
  EXPECT_EQ(models(), (Words{"m", "m-step-00000036", "m-step-mine"}));
  expect_intact("models/m-step-00000036");
}

TEST_F(ModelSnapshots, AKilledRunLeavesNoHalfFolder) {
  const Words long_run = kEvery6 + Words{"--steps", "2000"};
  const auto process = started(command("run", long_run), "run", 1);
  const auto is_partial = [](const std::string& name) { return name.ends_with("-partial"); };
  for (int i = 0; i < 20'000 && std::ranges::none_of(models(), is_partial); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  end_of(*process, SIGKILL);
  for (const std::string& name : models()) {
    if (!is_partial(name)) expect_intact("models/" + name);
  }
  complete("run", long_run + Words{"--resume", "--steps", "20", "--allow-change", "steps"});
  EXPECT_TRUE(std::ranges::none_of(models(), is_partial));
  EXPECT_GT(models().size(), 1);
  for (const std::string& name : models()) expect_intact("models/" + name);
}

TEST_F(ModelSnapshots, WhatAnotherRunWroteIsRefused) {
  complete("first", kEvery6);
  fs::remove_all(path("models/m"));
  expect_refused("second", kEvery6, 2, {"m-step-00000006 is of another run"});
}

TEST_F(ModelSnapshots, AFolderThatIsInTheWayIsRefused) {
  fs::create_directory(path("models/m-step-00000006"));
  expect_refused("run", kEvery6, 2, {"m-step-00000006 is there already"});
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(ModelSnapshots, OneIsWrittenBesideTheCheckpointOfTheSameCommit) {
  complete("run", kEvery6 + Words{"--checkpoint-every", "6", "--checkpoint-to", "models"});
  EXPECT_EQ(models().back(), "step-00000012");
  for (const std::string& name : models()) expect_intact("models/" + name);
  expect_intact("models/m-step-00000006");
}

TEST_F(ModelSnapshots, RanksWriteOneTogether) {
  if (!obstacle_to_ranks().empty()) GTEST_SKIP() << obstacle_to_ranks();
  complete("run", kEvery6, 2);
  EXPECT_EQ(models(), (Words{"m", "m-step-00000006"}));
  expect_intact("models/m-step-00000006");
}

}  // namespace
}  // namespace strata::engine

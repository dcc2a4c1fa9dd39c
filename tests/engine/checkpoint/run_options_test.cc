// options.json: read back as it was written, without what only says how the program starts.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/run_options.h"
#include "engine/options/option_list.h"
#include "engine/options/option_parse.h"
#include "engine/portable/index.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;
using test::TemporaryFolder;

const CommandSyntax kTrain{"train", "", CommandKind::train};

Options resumed(const TemporaryFolder& folder) {
  Options options;
  options.run = folder.path();
  options.resume = true;
  return options;
}

TEST(RunOptions, AreReadBackAsTheyWereWritten) {
  const TemporaryFolder folder;
  Options options;
  options.model = "1e5";  // a name that is also a number
  options.host_memory = 12345;
  options.lr = 0.1 + 0.2;
  options.sample_prompt = "a\n\\b";
  options.no_decay = {"x.*", "y"};
  options.recompute = false;
  options.json = true;
  options.seed = 18446744073709551615u;
  options.device = "cuda";
  options.checkpoint_every = {0, 5400};
  std::ofstream(folder.path("options.json")) << run_options_json(options);

  const std::optional<RecordedOptions> again = recorded_options(resumed(folder));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->recorded_in, "--run " + folder.path());
  const auto json = nlohmann::json::parse(run_options_json(options));
  for (const OptionSpec& spec : option_list()) {
    EXPECT_EQ(spec.get(again->options), spec.get(options)) << spec.name;
    EXPECT_EQ(json.contains(spec.name),
              spec.used_by.contains(CommandKind::train) && !spec.of_a_start)
        << spec.name;
  }
  EXPECT_TRUE(json.at("lr").is_number());
  EXPECT_TRUE(json.at("model").is_string());
  EXPECT_EQ(json.at("json"), true);
}

// Where builds had no other device, auto was the cpu.
TEST(RunOptions, AutoOfAnOlderBuildIsTheCpu) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("options.json")) << R"({"model": "gpt2-124m", "device": "auto"})";
  EXPECT_EQ(recorded_options(resumed(folder))->options.device, "cpu");
}

// Wherever the run goes on.
TEST(RunOptions, PathsAreAbsolute) {
  Options options;
  options.run = "runs/../runs/x";
  options.nvme = "a=7GB/s,/b/./c";
  options.data = "train_*.bin,text.txt";
  const std::string here = std::filesystem::current_path();
  const auto json = nlohmann::json::parse(run_options_json(options));
  EXPECT_EQ(json.at("run"), here + "/runs/x");
  EXPECT_EQ(json.at("nvme"), here + "/a=7GB/s,/b/c");
  EXPECT_EQ(json.at("data"), here + "/train_*.bin," + here + "/text.txt");
  EXPECT_EQ(json.at("val-data"), "");
  EXPECT_EQ(json.at("export"), "");
}

TEST(RunOptions, WithoutAModelTheFolderSaysWhatIsMissing) {
  const TemporaryFolder folder;
  Options given = resumed(folder);
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { recorded_options(given); }),
               "--run " + folder.path() + ": there is no run in it yet");
  std::ofstream(folder.path("options.json")) << run_options_json(given);
  given.resume = false;
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { recorded_options(given); }), "add --resume");
  given.model = "gpt2-124m";
  EXPECT_FALSE(recorded_options(given).has_value());
}

TEST(RunOptions, HowAStartWasAskedForIsNotOfTheRun) {
  Options options;
  options.resume = true;
  options.resume_step = 50;
  options.allow_change = {"lr"};
  const auto json = nlohmann::json::parse(run_options_json(options));
  for (const char* name : {"resume", "resume-step", "resume-from", "allow-change"}) {
    EXPECT_FALSE(json.contains(name)) << name;
  }
}

TEST(RunOptions, AreTheLowestLayer) {
  const TemporaryFolder folder;
  Options begun;
  begun.lr = 0.25;
  begun.steps = 100;
  begun.seed = 7;
  begun.run = "where it lay then";
  std::ofstream(folder.path("options.json")) << run_options_json(begun);
  std::ofstream(folder.path("c.toml")) << "seed = 8\nepochs = 2\n";
  const std::vector<std::string> arguments = {"--run", folder.path(), "--resume", "--config",
                                              folder.path("c.toml")};
  const std::optional<RecordedOptions> recorded =
      recorded_options(parse_options(kTrain, arguments));
  ASSERT_TRUE(recorded.has_value());
  const Options options = parse_options(kTrain, arguments, recorded->options);
  EXPECT_EQ(options.lr, 0.25);
  EXPECT_EQ(options.seed, 8u);
  EXPECT_EQ(options.epochs, 2);
  EXPECT_EQ(options.steps, 0);
  EXPECT_EQ(options.run, folder.path());
  EXPECT_TRUE(options.resume);
}

// Where it was, and what it kept, is the other run's own.
TEST(RunOptions, OfAPortableCheckpointAreThoseOfItsTraining) {
  const TemporaryFolder folder;
  Options begun;
  begun.lr = 0.25;
  begun.steps = 100;
  begun.run = "where it lay";
  begun.nvme = "/a";
  begun.checkpoint_to = "copies";
  PortableIndex index;
  index.content = PortableContent::training_state;
  index.origin.options = nlohmann::json::parse(run_options_json(begun));
  std::ofstream(folder.path(kPortableIndexFile)) << encode(index);
  Options given;
  given.run = "new";
  given.resume_from = folder.path();
  const std::optional<RecordedOptions> recorded = recorded_options(given);
  ASSERT_TRUE(recorded.has_value());
  EXPECT_EQ(recorded->recorded_in, "--resume-from " + folder.path());
  EXPECT_EQ(recorded->options.lr, 0.25);
  EXPECT_EQ(recorded->options.steps, 100);
  EXPECT_EQ(recorded->options.run, "");
  EXPECT_EQ(recorded->options.nvme, "");
  EXPECT_EQ(recorded->options.checkpoint_to, "");
}

TEST(RunOptions, ThereAreNoneOfARunThatBegins) {
  const TemporaryFolder folder;
  Options options = resumed(folder);
  options.model = "gpt2-124m";
  EXPECT_FALSE(recorded_options(options).has_value());
  std::ofstream(folder.path("options.json")) << run_options_json({});
  EXPECT_TRUE(recorded_options(options).has_value());
  options.resume = false;
  EXPECT_FALSE(recorded_options(options).has_value());
}

TEST(RunOptions, ADamagedFileIsNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.path("options.json");
  std::ofstream(path) << "{\"lr\": 0.1";
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { recorded_options(resumed(folder)); }),
               path + ": not valid JSON");
  std::ofstream(path) << "{\"of-the-future\": 1}";
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { recorded_options(resumed(folder)); }),
               path + ": unknown option 'of-the-future'");
}

}  // namespace
}  // namespace strata::engine

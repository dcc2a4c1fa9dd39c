// The program's surface: commands, help, version, exit codes and the one line of an error.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/error_text.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::mentions;
using test::ProcessResult;
using test::TemporaryFolder;

constexpr int kExitUsage = 2;

ProcessResult strata(std::vector<std::string> arguments) {
  const TemporaryFolder folder;
  arguments.insert(arguments.begin(), STRATA_BINARY);
  ProcessResult result = test::run_process(arguments, folder.path());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "files were left behind";
  return result;
}

void expect_usage_error(const std::vector<std::string>& arguments, const std::string& message) {
  const ProcessResult result = strata(arguments);
  EXPECT_EQ(result.exit_code, kExitUsage);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("strata: error: ")) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_PRED2(mentions, result.err, message);
}

TEST(Cli, HelpAndVersionGoToStandardOutput) {
  for (const char* flag : {"--help", "-h", "help"}) {
    const ProcessResult help = strata({flag});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_EQ(help.err, "");
    EXPECT_PRED2(mentions, help.out, "  train ");
    EXPECT_PRED2(mentions, help.out, "  plan ");
  }
  const ProcessResult version = strata({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_TRUE(version.out.starts_with("strata ")) << version.out;
}

TEST(Cli, EveryCommandHasHelpWithDefaults) {
  for (const std::string command : {"train", "plan"}) {
    const ProcessResult help = strata({command, "--lr", "1", "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_EQ(help.err, "");
    EXPECT_PRED2(mentions, help.out, "usage: strata " + command);
    EXPECT_PRED2(mentions, help.out, "\nTiers\n");
    EXPECT_PRED2(mentions, help.out, "[auto]");
  }
}

TEST(Cli, UnknownCommandsSuggestTheNearest) {
  expect_usage_error({}, "strata --help");
  expect_usage_error({"tarin"}, "unknown command 'tarin' (did you mean 'train'?)");
  expect_usage_error({"--model", "gpt2-124m"}, "unknown command '--model'");
}

TEST(Cli, WrongOptionsEndTheProgramBeforeAnyWork) {
  const std::vector<std::string> train = {"train", "--model", "gpt2-124m", "--data", "none.txt"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), train.begin(), train.end());
    return more;
  };
  expect_usage_error(with({"--stpes", "3"}), "unknown option --stpes: did you mean --steps?");
  expect_usage_error(with({"--max_grad_norm", "1"}), "max_grad_norm is --clip-norm here");
  expect_usage_error(with({"--steps", "0"}), "--steps or --epochs");
  expect_usage_error(with({"--steps", "3", "--beta1", "1"}), "--beta1");
  expect_usage_error(with({"--config", "none.toml"}), "none.toml");
  expect_usage_error({"train", "--data", "none.txt", "--steps", "1"}, "--model");
  expect_usage_error({"train", "--model", "gpt2-124m", "--steps", "1"}, "--data");
  expect_usage_error({"plan"}, "--model");
  expect_usage_error({"plan", "--qqqqqqqqqqqq"}, "see strata plan --help");
  expect_usage_error(with({"--steps"}), "--steps: the value is missing");
}

TEST(Cli, ARunThatGoesOnHasItsOptionsUnlessOthersAreGiven) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("options.json"))
      << R"({"model": "gpt2:layers=1,hidden=64,heads=2,context=32",
             "lr": 0.25, "global-batch": 3})";
  const std::vector<std::string> plan = {"plan", "--run", folder.path(), "--resume"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), plan.begin(), plan.end());
    return more;
  };
  const ProcessResult recorded = strata(plan);
  EXPECT_EQ(recorded.exit_code, 0) << recorded.err;
  EXPECT_PRED2(mentions, recorded.out, "3 sequences");
  EXPECT_EQ(strata(with({"--prefetch", "3", "--lr", "0.25"})).exit_code, 0);
  EXPECT_EQ(strata(with({"--lr", "0.5", "--allow-change", "lr"})).exit_code, 0);
  expect_usage_error(with({"--lr", "0.5", "--global-batch", "4"}),
                     "--run " + folder.path() +
                         ": --global-batch was '3' and is now '4', --lr was '0.25' and is now "
                         "'0.5', which would change what the run computes; give what it was, or "
                         "--allow-change global-batch,lr");
  expect_usage_error(with({"--lr", "0.5", "--allow-change", "l"}), "--allow-change: 'l'");
  std::ofstream(folder.path("options.json")) << "{";
  expect_usage_error(plan, folder.path("options.json") + ": not valid JSON");
}

}  // namespace
}  // namespace strata::engine

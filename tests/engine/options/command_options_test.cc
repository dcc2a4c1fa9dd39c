// Which options and operands each command takes, and what it says of the others.
#include <gtest/gtest.h>

#include <fstream>

#include "engine/options/option_help.h"
#include "engine/options/option_list.h"
#include "engine/options/option_parse.h"
#include "engine/options/unknown_option.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;

const CommandSyntax kTrain{"train", "", CommandKind::train};
const CommandSyntax kPlan{"plan", "", CommandKind::plan};
const CommandSyntax kGc{"gc", "DIR...", CommandKind::gc};
const CommandSyntax kBenchIo{"bench io", "", CommandKind::bench_io};

std::string parse_error(const CommandSyntax& command, const std::vector<std::string>& arguments) {
  return error_text<ConfigError>([&] { parse_options(command, arguments); });
}

TEST(CommandOptions, OfAnotherCommandAreRefusedByName) {
  EXPECT_EQ(parse_error(kGc, {"dir", "--lr", "1"}),
            "--lr: strata gc does not have this option; see strata gc --help");
  EXPECT_EQ(parse_error(kBenchIo, {"--nvme", "d", "--steps=3"}),
            "--steps: strata bench io does not have this option; see strata bench io --help");
}

TEST(CommandOptions, OfAnotherCommandAreRefusedInAConfigFileToo) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path("c.toml")) << "nvme = d\nlr = 1\n";
  EXPECT_PRED2(mentions, parse_error(kBenchIo, {"--config", folder.path("c.toml")}),
               "c.toml:2: lr: strata bench io does not have this option");
}

TEST(CommandOptions, APlanTakesEveryOption) {
  for (const OptionSpec& spec : option_list()) {
    std::vector<std::string> arguments = {"--" + spec.name};
    const std::string value = spec.get(Options());
    if (value.empty() && !spec.is_flag) continue;
    if (!spec.is_flag) arguments.push_back(value);
    EXPECT_NO_THROW(parse_options(kPlan, arguments)) << spec.name;
  }
}

TEST(CommandOptions, EveryOptionHasACommandThatUsesIt) {
  for (const OptionSpec& spec : option_list()) {
    bool used = false;
    for (const CommandKind kind :
         {CommandKind::train, CommandKind::plan, CommandKind::tune, CommandKind::report,
          CommandKind::eval, CommandKind::generate, CommandKind::export_run, CommandKind::inspect,
          CommandKind::verify, CommandKind::gc, CommandKind::doctor, CommandKind::bench_io,
          CommandKind::bench_optimizer}) {
      used = used || spec.used_by.contains(kind);
    }
    EXPECT_TRUE(used) << spec.name;
  }
}

TEST(CommandOptions, OperandsAreKeptInOrder) {
  EXPECT_EQ(parse_options(kGc, {"/a", "/b"}).arguments, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_TRUE(parse_options(kGc, {}).arguments.empty());
  EXPECT_EQ(parse_error(kGc, {"/a", "--qqqqqqqqqqqq"}),
            "unknown option --qqqqqqqqqqqq: see strata gc --help");
}

TEST(CommandOptions, OperandsOfACommandThatHasNoneAreMistakes) {
  EXPECT_PRED2(mentions, parse_error(kTrain, {"text.txt"}), "unexpected argument 'text.txt'");
  EXPECT_PRED2(mentions, parse_error(kBenchIo, {"/mnt/ssd"}), "unexpected argument '/mnt/ssd'");
}

TEST(CommandOptions, HelpShowsHowTheCommandIsWritten) {
  EXPECT_TRUE(options_help(kGc).starts_with("usage: strata gc DIR... [--option VALUE ...]\n"));
  const std::string bench = options_help(kBenchIo);
  EXPECT_TRUE(bench.starts_with("usage: strata bench io [--option VALUE ...]\n")) << bench;
  EXPECT_PRED2(mentions, bench, "  --nvme ");
  EXPECT_PRED2(mentions, bench, "  --io-engine ");
  EXPECT_FALSE(mentions(bench, "  --lr ")) << bench;
}

// The one option of train's that is not a plan's own and changes it.
TEST(CommandOptions, APlanOfARunThatIsThereIsOffered) {
  const std::string plan = options_help(kPlan);
  EXPECT_PRED2(mentions, plan, "  --resume ");
  EXPECT_PRED2(mentions, plan, "Plan with the options of the run");
  EXPECT_FALSE(mentions(plan, "--resume-step")) << plan;
}

TEST(UnknownOption, SuggestsOnlyWhatTheCommandTakes) {
  EXPECT_EQ(explain_unknown_option("stpes", kTrain), "did you mean --steps?");
  EXPECT_EQ(explain_unknown_option("stpes", kBenchIo), "see strata bench io --help");
}

TEST(UnknownOption, KnowsWhatOtherToolsCallIt) {
  EXPECT_PRED2(mentions, explain_unknown_option("lion", kTrain), "--optimizer lion");
  EXPECT_PRED2(mentions, explain_unknown_option("adam_w_mode", kTrain), "--optimizer adamw");
  EXPECT_PRED2(mentions, explain_unknown_option("optim-bits", kTrain), "--moments int8");
  EXPECT_PRED2(mentions, explain_unknown_option("aio", kTrain), "strata bench io");
  EXPECT_PRED2(mentions, explain_unknown_option("resume-from-checkpoint", kTrain), "--resume-from");
  EXPECT_EQ(explain_unknown_option("save_steps", kTrain), "save_steps is --checkpoint-every here");
  EXPECT_EQ(explain_unknown_option("offload_folder", kTrain), "offload_folder is --nvme here");
  EXPECT_EQ(explain_unknown_option("grad_accum_dtype", kTrain),
            "grad_accum_dtype is --grad-dtype here");
}

}  // namespace
}  // namespace strata::engine

// The option list: parsing, precedence, defaults, checks, help, and what an unknown name is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "engine/options/count_text.h"
#include "engine/options/option_help.h"
#include "engine/options/option_list.h"
#include "engine/options/option_parse.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

const CommandSyntax kTrain{"train", "", CommandKind::train};
const CommandSyntax kPlan{"plan", "", CommandKind::plan};

using test::error_text;
using test::mentions;

Options parse(const std::vector<std::string>& arguments) {
  return parse_options(kTrain, arguments);
}

std::string parse_error(const std::vector<std::string>& arguments) {
  return error_text<ConfigError>([&] { parse(arguments); });
}

TEST(OptionList, NamesAndAliasesAreUnique) {
  std::set<std::string> names;
  for (const OptionSpec& spec : option_list()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_EQ(spec.name.find('_'), std::string::npos) << spec.name;
    for (const std::string& alias : spec.aliases) {
      EXPECT_TRUE(names.insert(alias).second) << alias;
      EXPECT_EQ(alias.find('-'), std::string::npos) << alias << ": aliases use underscores";
    }
  }
}

TEST(OptionList, EveryValueIsReadBackAsItWasWritten) {
  const Options defaults;
  for (const OptionSpec& spec : option_list()) {
    Options options;
    spec.set(options, spec.get(defaults));
    EXPECT_EQ(spec.get(options), spec.get(defaults)) << spec.name;
  }
}

TEST(ParseOptions, PathsThatNoFileSystemHasAreRefusedByTheirOption) {
  const std::string name(300, 'a');
  const std::string file_too = "x," + name;
  for (const OptionSpec& spec : option_list()) {
    if (spec.paths == OptionPaths::none || !kPlan.takes(spec)) continue;
    const bool several = spec.paths == OptionPaths::several;
    const auto error = [&](const std::string& path) {
      return error_text<ConfigError>([&] { parse_options(kPlan, {"--" + spec.name, path}); });
    };
    EXPECT_PRED2(mentions, error(several ? file_too : name), "--" + spec.name + ": aaa");
    EXPECT_PRED2(mentions, error(several ? file_too : name), "File name too long");
    if (spec.paths == OptionPaths::file) {
      EXPECT_PRED2(mentions, error("/"), "--" + spec.name + ": / is a folder; give a file");
    }
  }
  EXPECT_PRED2(mentions, parse_error({"--config", name}), "--config: aaa");
  EXPECT_PRED2(mentions, parse_error({"--config", "/"}), "--config: / is a folder");
  const CommandSyntax inspect{"inspect", "DIR...", CommandKind::inspect};
  EXPECT_PRED2(mentions, error_text<ConfigError>([&] { parse_options(inspect, {name}); }),
               "File name too long");
}

TEST(ParseOptions, FillsFieldsOfEveryKind) {
  const Options o = parse({"--model",
                           "gpt2-124m",
                           "--device-memory",
                           "512MiB",
                           "--host-memory=2GB",
                           "--prefetch",
                           "0",
                           "--recompute",
                           "off",
                           "--pass",
                           "4",
                           "--lr",
                           "6e-4",
                           "--lr-schedule",
                           "wsd",
                           "--warmup",
                           "3%",
                           "--no-decay",
                           "*.bias,ln_*",
                           "--seed",
                           "18446744073709551615",
                           "--sample-prompt",
                           "a\\nb",
                           "--json"});
  EXPECT_EQ(o.model, "gpt2-124m");
  EXPECT_EQ(o.device_memory, 512 * 1024 * 1024);
  EXPECT_EQ(o.host_memory, 2'000'000'000);
  EXPECT_EQ(o.prefetch, 0);
  EXPECT_FALSE(o.recompute);
  EXPECT_EQ(o.pass, 4);
  EXPECT_DOUBLE_EQ(o.lr, 6e-4);
  EXPECT_EQ(o.lr_schedule, "wsd");
  EXPECT_EQ(o.warmup, "3%");
  EXPECT_EQ(o.no_decay, (std::vector<std::string>{"*.bias", "ln_*"}));
  EXPECT_EQ(o.seed, 18446744073709551615u);
  EXPECT_EQ(o.sample_prompt, "a\nb");
  EXPECT_TRUE(o.json);
}

TEST(ParseOptions, AnIntervalIsStepsATimeOrNever) {
  struct Case {
    const char* text;
    CheckpointInterval interval;
    const char* printed;
  };
  for (const Case& c :
       {Case{"50", {50, 0}, "50"}, Case{"30min", {0, 1800}, "30min"}, Case{"90s", {0, 90}, "90s"},
        Case{"1.5h", {0, 5400}, "90min"}, Case{"0.5s", {0, 0.5}, "0.5s"}, Case{"0", {0, 0}, "0"}}) {
    const Options o = parse({"--checkpoint-every", c.text});
    ASSERT_TRUE(o.checkpoint_every.has_value()) << c.text;
    EXPECT_EQ(o.checkpoint_every->steps, c.interval.steps) << c.text;
    EXPECT_EQ(o.checkpoint_every->seconds, c.interval.seconds) << c.text;
    EXPECT_EQ(o.checkpoint_every->never(), std::string(c.text) == "0");
    const auto spec = std::find_if(option_list().begin(), option_list().end(),
                                   [](const auto& s) { return s.name == "checkpoint-every"; });
    EXPECT_EQ(spec->get(o), c.printed);
  }
  EXPECT_FALSE(parse({}).checkpoint_every.has_value());
  EXPECT_EQ(parse_error({"--checkpoint-every", "-5"}),
            "--checkpoint-every: '-5' is below 0; 0 is never");
  EXPECT_EQ(parse_error({"--checkpoint-every", "often"}),
            "--checkpoint-every: 'often' is not a whole number: give steps (50), a time (30min), "
            "or 0 for never");
  EXPECT_EQ(parse_error({"--checkpoint-every", "xmin"}), "--checkpoint-every: 'x' is not a number");
  EXPECT_EQ(parse({"--stop-within", "45"}).stop_within, 45);
  EXPECT_EQ(parse({"--stop-within", "2min"}).stop_within, 120);
}

TEST(ParseOptions, AutoIsAnEmptyValue) {
  const Options o = parse({"--host-memory", "auto", "--pass", "auto", "--threads", "auto"});
  EXPECT_FALSE(o.host_memory.has_value());
  EXPECT_FALSE(o.pass.has_value());
  EXPECT_FALSE(o.threads.has_value());
}

TEST(ParseOptions, TheLastOfTwoValuesWins) {
  EXPECT_EQ(parse({"--steps", "5", "--steps", "7"}).steps, 7);
}

TEST(ParseOptions, ValuesMayLookLikeOptions) {
  EXPECT_DOUBLE_EQ(parse({"--lr", "-1"}).lr, -1);  // for check_options() to refuse
}

TEST(ParseOptions, TheCommandLineWinsOverTheConfigFile) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "options_test.toml";
  std::ofstream(path) << "steps = 5\nglobal_batch = 16  # underscores work too\n";
  const Options o = parse({"--steps", "7", "--config", path.string()});
  EXPECT_EQ(o.steps, 7);
  EXPECT_EQ(o.global_batch, 16);
  std::filesystem::remove(path);
}

TEST(ParseOptions, ConfigErrorsNameFileAndLine) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "options_test_bad.toml";
  std::ofstream(path) << "steps = 5\n\nmax_grad_norm = 1\n";
  EXPECT_PRED2(mentions, parse_error({"--config", path.string()}),
               "options_test_bad.toml:3: unknown option 'max_grad_norm': max_grad_norm is "
               "--clip-norm here");
  std::ofstream(path) << "\nsteps = many\n";
  EXPECT_PRED2(mentions, parse_error({"--config", path.string()}),
               "options_test_bad.toml:2: steps: 'many' is not a whole number");
  std::filesystem::remove(path);
  EXPECT_PRED2(mentions, parse_error({"--config", path.string()}), path.string());
}

TEST(ParseOptions, UnknownOptionsSuggestWhatIsMeant) {
  EXPECT_EQ(parse_error({"--clip-nrom", "1"}),
            "unknown option --clip-nrom: did you mean --clip-norm?");
  EXPECT_EQ(parse_error({"--learning_rate=1"}),
            "unknown option --learning_rate: learning_rate is --lr here");
  EXPECT_EQ(parse_error({"--learning-rate", "1"}),
            "unknown option --learning-rate: learning-rate is --lr here");
  EXPECT_PRED2(mentions, parse_error({"--gradient_accumulation_steps", "4"}), "--global-batch");
  EXPECT_PRED2(mentions, parse_error({"--warmup_ratio", "0.03"}), "--warmup 3%");
  EXPECT_PRED2(mentions, parse_error({"--per_device_train_batch_size", "4"}), "--micro-batch");
  EXPECT_EQ(parse_error({"--qqqqqqqqqqqq"}),
            "unknown option --qqqqqqqqqqqq: see strata train --help");
  EXPECT_EQ(error_text<ConfigError>([] { parse_options(kPlan, {"--qqqqqqqqqqqq"}); }),
            "unknown option --qqqqqqqqqqqq: see strata plan --help");
}

TEST(ParseOptions, BadValuesNameTheOption) {
  EXPECT_EQ(parse_error({"--steps", "1e3"}), "--steps: '1e3' is not a whole number");
  EXPECT_EQ(parse_error({"--steps", "99999999999999999999"}),
            "--steps: '99999999999999999999' is too large");
  EXPECT_EQ(parse_error({"--lr", "nan"}), "--lr: 'nan' is not a number");
  EXPECT_PRED2(mentions, parse_error({"--host-memory", "many"}), "--host-memory: ");
  EXPECT_EQ(parse_error({"--optimizer", "adamv"}),
            "--optimizer: 'adamv' is not one of adamw, adam, lion (did you mean 'adamw'?)");
  EXPECT_PRED2(mentions, parse_error({"--io-engine", "io_uring"}), "--io-engine: 'io_uring'");
  EXPECT_PRED2(mentions, parse_error({"--warmup", "101%"}), "--warmup: '101%'");
  EXPECT_PRED2(mentions, parse_error({"--warmup", "-1"}), "--warmup: '-1'");
  EXPECT_PRED2(mentions, parse_error({"--sample-prompt", "\\x"}), "--sample-prompt: ");
  EXPECT_PRED2(mentions, parse_error({"--no-decay", "a,,b"}), "--no-decay: ");
  EXPECT_EQ(parse_error({"--steps"}), "--steps: the value is missing");
  EXPECT_EQ(parse_error({"--steps="}), "--steps: the value is missing");
  EXPECT_EQ(parse_error({"--steps", "--lr", "1"}), "--steps: the value is missing before --lr");
  EXPECT_EQ(parse_error({"--config", "a", "--config", "b"}),
            "--config is given twice: give one file");
  EXPECT_PRED2(mentions, parse_error({"train.txt"}), "unexpected argument 'train.txt'");
}

TEST(OptionsHelp, ShowsEveryOptionOnceWithItsDefaultInAHundredColumns) {
  const std::string help = options_help(kTrain);
  for (const OptionSpec& spec : option_list()) {
    if (!spec.used_by.contains(CommandKind::train)) continue;
    const std::size_t first = help.find("  --" + spec.name + " ");
    EXPECT_NE(first, std::string::npos) << spec.name;
    EXPECT_EQ(help.find("\n  --" + spec.name + " ", first), std::string::npos) << spec.name;
  }
  EXPECT_PRED2(mentions, help, "[0.0003]");
  EXPECT_PRED2(mentions, help, "Tiers\n");
  EXPECT_PRED2(mentions, help, "usage: strata train [--option VALUE ...]\n");
  EXPECT_PRED2(mentions, help, "Steps to train\n");  // 0 is no default that could be given
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(OptionsHelp, OfAPlanLeavesOutWhatOnlyTrainingUses) {
  const std::string help = options_help(kPlan);
  for (const char* used : {"  --data ", "  --nvme ", "  --clip-norm ", "  --steps ", "  --json "}) {
    EXPECT_PRED2(mentions, help, used);
  }
  for (const char* unused : {"  --lr ", "  --warmup ", "  --log ", "  --sample-every "}) {
    EXPECT_FALSE(mentions(help, unused)) << unused;
  }
}

TEST(CountText, HasSeparatorsAndPlurals) {
  EXPECT_EQ(with_separators(0), "0");
  EXPECT_EQ(with_separators(-123), "-123");
  EXPECT_EQ(with_separators(-1234), "-1,234");
  EXPECT_EQ(with_separators(1'681'817), "1,681,817");
  EXPECT_EQ(count_text(1, "step"), "1 step");
  EXPECT_EQ(count_text(6241, "step"), "6,241 steps");
  EXPECT_EQ(count_text(0, "pass", "passes"), "0 passes");
}

TEST(ParseOptions, TheCommandLineWinsOverARivalInTheFile) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path("c.toml");
  std::ofstream(file) << "steps = 5\nval-fraction = 0.1\n";
  const Options options =
      parse_options(kTrain, {"--config", file, "--epochs", "2", "--val-data", "v.txt"});
  EXPECT_EQ(options.steps, 0);
  EXPECT_EQ(options.epochs, 2);
  EXPECT_EQ(options.val_fraction, 0);
  EXPECT_EQ(options.val_data, "v.txt");
}

TEST(ParseOptions, LayersLieOverABase) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path("c.toml");
  std::ofstream(file) << "epochs = 2\nlr = 0.5\n";
  Options base;
  base.steps = 100;
  base.lr = 0.25;
  base.seed = 7;
  base.val_fraction = 0.1;
  const Options options =
      parse_options(kTrain, {"--config", file, "--lr", "0.75", "--val-data", "v.txt"}, base);
  EXPECT_EQ(options.seed, 7u);
  EXPECT_EQ(options.lr, 0.75);
  EXPECT_EQ(options.epochs, 2);  // the file's, over the base's steps
  EXPECT_EQ(options.steps, 0);
  EXPECT_EQ(options.val_fraction, 0);
}

TEST(OptionsSummary, ShowsWhatDiffersFromTheDefaults) {
  EXPECT_EQ(options_summary(Options{}), "");
  Options options;
  options.host_memory = 3 * 512 * 1024 * 1024ll;
  options.recompute = false;
  EXPECT_EQ(options_summary(options), "host-memory = 1536MiB\nrecompute = off\n");
}

}  // namespace
}  // namespace strata::engine

#include "engine/run/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "engine/checkpoint/run_options.h"
#include "engine/infer/options_of_run.h"
#include "engine/options/option_changes.h"
#include "engine/options/option_check.h"
#include "engine/options/option_help.h"
#include "engine/options/option_parse.h"
#include "engine/run/eval_command.h"
#include "engine/run/generate_command.h"
#include "engine/run/plan_command.h"
#include "engine/run/rank_devices.h"
#include "engine/run/ranks.h"
#include "engine/run/report_command.h"
#include "engine/run/train.h"
#include "engine/run/tune_command.h"
#include "engine/tools/bench_io_command.h"
#include "engine/tools/bench_optimizer_command.h"
#include "engine/tools/doctor_command.h"
#include "engine/tools/export_command.h"
#include "engine/tools/gc_command.h"
#include "engine/tools/inspect_command.h"
#include "engine/tools/verify_command.h"
#include "kernels/base/error.h"
#include "kernels/base/suggest.h"

namespace strata::engine {
namespace {

using Clock = std::chrono::steady_clock;

struct Command {
  CommandSyntax syntax;
  std::string help;
  void (*check)(const Options& options);
  int (*run)(const Options& options, Ranks& ranks, Clock::time_point started);
};

// For commands about this machine: of several ranks, one speaks.
template <int (*kRun)(const Options&)>
int run_on_first_rank(const Options& options, Ranks& ranks, Clock::time_point) {
  return ranks.comm.rank() == 0 ? kRun(options) : 0;
}

// For commands that compute.
template <int (*kRun)(const Options&, Ranks&)>
int run_with_device(const Options& options, Ranks& joined, Clock::time_point) {
  return run_on_devices(options, joined, [&](Ranks& ranks) { return kRun(options, ranks); });
}

const Command kCommands[] = {
    {{"train", "", CommandKind::train},
     "Train a model larger than its memory on text or tokens",
     [](const Options& options) {
       check_options(options);
       check_training_options(options);
     },
     [](const Options& options, Ranks& joined, Clock::time_point started) {
       return run_on_devices(options, joined,
                             [&](Ranks& ranks) { return run_train(options, ranks, started); });
     }},
    {{"plan", "", CommandKind::plan},
     "Show what would live where and what would move, without training",
     check_options,
     run_with_device<run_plan>},
    {{"tune", "", CommandKind::tune},
     "Find the plans whose steps are shortest, and how to train with them",
     check_tuned_options,
     run_with_device<run_tune>},
    {{"eval", "", CommandKind::eval},
     "Measure a model's loss, perplexity and accuracy on data",
     check_eval_options,
     run_with_device<run_eval>},
    {{"generate", "", CommandKind::generate},
     "Go on with a text as a model would",
     check_generate_options,
     run_with_device<run_generate>},
    {{"export", "RUN DIR", CommandKind::export_run},
     "Write a run's newest checkpoint as a model folder, or to resume from elsewhere",
     check_export_options,
     run_on_first_rank<run_export>},
    {{"report", "RUN", CommandKind::report},
     "Write a run's curves, timelines and times as one page of HTML",
     check_report_options,
     run_on_first_rank<run_report>},
    {{"inspect", "RUN|DIR...", CommandKind::inspect},
     "Show what runs, directories and portable checkpoints hold, and of which step",
     check_inspect_options,
     run_on_first_rank<run_inspect>},
    {{"verify", "RUN|DIR...", CommandKind::verify},
     "Read all of the newest checkpoint and check every checksum",
     check_verify_options,
     run_on_first_rank<run_verify>},
    {{"gc", "DIR...", CommandKind::gc},
     "Reclaim the space of stores that no run can go on from",
     check_gc_options,
     run_on_first_rank<run_gc>},
    {{"doctor", "", CommandKind::doctor},
     "Show what this machine allows, and what to do where it falls short",
     check_nvme,
     run_on_first_rank<run_doctor>},
    {{"bench io", "", CommandKind::bench_io},
     "Measure the drives by block size and depth, and name the options that follow",
     check_bench_io_options,
     run_on_first_rank<run_bench_io>},
    {{"bench optimizer", "", CommandKind::bench_optimizer},
     "Measure the optimizer's update against what memory allows",
     check_bench_optimizer_options,
     run_on_first_rank<run_bench_optimizer>},
};

// A line for each command whose name begins with `prefix`.
std::string commands_text(std::string_view prefix) {
  std::string out;
  for (const Command& command : kCommands) {
    if (!command.syntax.name.starts_with(prefix)) continue;
    out += fmt::format("  {:<17}{}\n", command.syntax.name, command.help);
  }
  return out;
}

std::string program_help() {
  return "Strata trains transformer language models whose training state is larger than memory.\n\n"
         "usage: strata COMMAND [--option VALUE ...]\n\n" +
         commands_text("") +
         "\nstrata COMMAND --help lists the options of a command; strata --version the version.\n";
}

bool asks_for_help(const std::string& argument) { return argument == "--help" || argument == "-h"; }

// Of several ranks that a launcher started, one prints what needs no run.
void print_once(const std::string& text) {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}) {
    const char* const rank = std::getenv(variable);
    if (rank == nullptr) continue;
    if (std::string_view(rank) != "0") return;
    break;
  }
  fmt::print("{}", text);
}

const Command& find_command(const std::string& name) {
  if (name.empty()) throw ConfigError("no command given; see strata --help");
  if (name == "bench")
    throw ConfigError("bench is not a command by itself; see strata bench --help");
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (command.syntax.name == name) return command;
    names.push_back(command.syntax.name);
  }
  throw_error<ConfigError>("unknown command '{}'{}; commands are {}", name,
                           did_you_mean(name, names), fmt::join(names, ", "));
}

// Those of a run that is read as a model lie below what is given.
Options read_inference_options(const CommandSyntax& command,
                               const std::vector<std::string>& arguments) {
  const Options defaults = default_options(command.kind);
  Options options = parse_options(command, arguments, defaults);
  if (const auto recorded = options_of_run(options, defaults)) {
    options = parse_options(command, arguments, *recorded);
    options.model = recorded->model;
  }
  return options;
}

// Those of a run that goes on lie below what is given.
Options read_checked(const Command& command, const std::vector<std::string>& arguments) {
  const CommandKind kind = command.syntax.kind;
  if (kind == CommandKind::eval || kind == CommandKind::generate) {
    const Options options = read_inference_options(command.syntax, arguments);
    command.check(options);
    return options;
  }
  Options options = parse_options(command.syntax, arguments);
  const std::optional<RecordedOptions> recorded = recorded_options(options);
  if (recorded) {
    options = parse_options(command.syntax, arguments, recorded->options);
    if (options.device == "auto") options.device = recorded->options.device;
  }
  command.check(options);
  if (recorded) require_same_mathematics(recorded->options, options, recorded->recorded_in);
  return options;
}

}  // namespace

int run_cli(const std::vector<std::string>& arguments) {
  const Clock::time_point started = Clock::now();
  const std::string first = arguments.empty() ? "" : arguments.front();
  if (asks_for_help(first) || first == "help") {
    print_once(program_help());
    return 0;
  }
  if (first == "--version") {
    print_once(fmt::format("strata {}\n", STRATA_VERSION));
    return 0;
  }
  // "bench io" is one name.
  const bool is_bench = first == "bench" && arguments.size() > 1 && !asks_for_help(arguments[1]);
  const int words = is_bench ? 2 : 1;
  const std::string name = is_bench ? first + " " + arguments[1] : first;
  if (std::any_of(arguments.begin(), arguments.end(), asks_for_help)) {
    if (name == "bench") {
      print_once("usage: strata bench NAME [--option VALUE ...]\n\n" + commands_text("bench "));
      return 0;
    }
    const Command& command = find_command(name);
    print_once(fmt::format("{}.\n\n{}", command.help, options_help(command.syntax)));
    return 0;
  }
  const Command* command = nullptr;
  const auto read_options = [&] {
    command = &find_command(name);
    return read_checked(*command, {arguments.begin() + words, arguments.end()});
  };
  return run_on_ranks(read_options, [&](const Options& options, Ranks& ranks) {
    return command->run(options, ranks, started);
  });
}

}  // namespace strata::engine

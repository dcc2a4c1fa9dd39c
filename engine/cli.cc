#include "engine/cli.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/option_list.h"
#include "engine/plan_command.h"
#include "engine/train.h"
#include "kernels/base/error.h"
#include "kernels/base/suggest.h"

namespace strata::engine {
namespace {

int train(const Options& options) {
  check_training_options(options);
  return run_train(options);
}

struct Command {
  std::string name;
  std::string help;
  int (*run)(const Options& options);
};

const Command kCommands[] = {
    {"train", "Train a model larger than its memory on text or tokens", train},
    {"plan", "Show what would live where and what would move, without training", run_plan},
};

std::string program_help() {
  std::string out =
      "Strata trains transformer language models whose training state is larger than memory.\n\n"
      "usage: strata COMMAND [--option VALUE ...]\n\n";
  for (const Command& command : kCommands) {
    out += fmt::format("  {:<8}{}\n", command.name, command.help);
  }
  return out +
         "\nstrata COMMAND --help lists the options of a command; strata --version the version.\n";
}

bool asks_for_help(const std::string& argument) { return argument == "--help" || argument == "-h"; }

const Command& find_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  throw_error<ConfigError>("unknown command '{}'{}; commands are {}", name,
                           did_you_mean(name, names), fmt::join(names, ", "));
}

}  // namespace

int run_cli(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw ConfigError("no command given; see strata --help");
  if (asks_for_help(arguments.front())) {
    fmt::print("{}", program_help());
    return 0;
  }
  if (arguments.front() == "--version") {
    fmt::print("strata {}\n", STRATA_VERSION);
    return 0;
  }
  const Command& command = find_command(arguments.front());
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (std::any_of(rest.begin(), rest.end(), asks_for_help)) {
    fmt::print("{}.\n\n{}", command.help, options_help(command.name));
    return 0;
  }
  const Options options = parse_options(rest);
  check_options(options);
  return command.run(options);
}

}  // namespace strata::engine

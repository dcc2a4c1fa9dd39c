// The one list of options: names, groups, help, defaults, checks. Command-line parsing, --help,
// config files, the summary printed at start and the options recorded with a run all come from it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/options/options.h"

namespace strata::engine {

enum class OptionGroup { model_data, tiers, batch, optimizer, arithmetic, run, watching, limits };

struct OptionSpec {
  std::string name;  // "global-batch"
  OptionGroup group;
  std::string value_hint;            // "SIZE", "N", "adamw|adam"
  std::string help;                  // one sentence, no default
  std::vector<std::string> aliases;  // spellings of other tools, for config files and suggestions
  // Parses text into its field; throws ConfigError that says what is accepted (the caller adds
  // where the text stood).
  std::function<void(Options&, std::string_view)> set;
  // The value as text that set() accepts.
  std::function<std::string(const Options&)> get;
  bool is_flag = false;
};

const std::vector<OptionSpec>& option_list();
const char* title_of(OptionGroup group);

// Parses `arguments` (without program and command name). A --config FILE is applied first, wherever
// it stands; the command line wins. Throws ConfigError naming the option or file:line, with the
// nearest known name for an unknown one.
Options parse_options(const std::vector<std::string>& arguments);

// Help text of a command that takes these options, grouped, with defaults.
std::string options_help(std::string_view command);

// Checks that need no file or machine: ranges, combinations. Throws ConfigError.
void check_options(const Options& options);

// What train needs and plan does not: data, and a number of steps or epochs. Throws ConfigError.
void check_training_options(const Options& options);

// One "name = value" line per option that differs from its default.
std::string options_summary(const Options& options);

}  // namespace strata::engine

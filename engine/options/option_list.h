// The one list of options: name, group, help, parsing and printing of each. Who walks it:
// option_parse.h (command line, config files), option_help.h (--help, the summary printed at
// start), run_options.h (options.json). Ranges and combinations are in option_check.h.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/options/options.h"

namespace strata::engine {

enum class OptionGroup {
  model_data,
  tiers,
  batch,
  optimizer,
  arithmetic,
  run,
  exporting,
  generating,
  watching,
  limits,
  tuning,
  benchmark
};

enum class CommandKind {
  train,
  plan,
  tune,
  eval,
  generate,
  export_run,
  report,
  inspect,
  verify,
  gc,
  doctor,
  bench_io,
  bench_optimizer
};

class CommandSet {
 public:
  CommandSet(std::initializer_list<CommandKind> commands) {
    for (const CommandKind command : commands) bits_ |= bit(command);
  }
  bool contains(CommandKind command) const { return (bits_ & bit(command)) != 0; }
  CommandSet& operator|=(CommandSet other) {
    bits_ |= other.bits_;
    return *this;
  }

 private:
  static unsigned bit(CommandKind command) { return 1u << static_cast<unsigned>(command); }
  unsigned bits_ = 0;
};

// Whether an option names a file, a folder, or several of either with commas between.
enum class OptionPaths : std::uint8_t { none, file, folder, several };

struct OptionSpec {
  std::string name;  // "global-batch"
  OptionGroup group;
  CommandSet used_by;
  std::string value_hint;            // "SIZE", "N", "adamw|adam"
  std::string help;                  // one sentence, no default
  std::vector<std::string> aliases;  // spellings of other tools, for config files and suggestions
  // Parses text into its field; throws ConfigError that says what is accepted (the caller adds
  // where the text stood).
  std::function<void(Options&, std::string_view)> set;
  // The value as text that set() accepts.
  std::function<std::string(const Options&)> get;
  // The help of a command for which it says something else.
  std::map<CommandKind, std::string> help_of = {};
  bool is_flag = false;
  bool shows_default = true;  // false: the default stands for "not given"
  bool of_a_rank = false;     // each rank may choose for itself; the others are the same on all
  bool mathematical = false;  // with another value the run would have other weights
  bool of_a_start = false;    // says how the program begins, not what the run is: not recorded
  OptionPaths paths = OptionPaths::none;
};

// The paths that its text names.
std::vector<std::string_view> paths_in(const OptionSpec& option, std::string_view text);

// The value as it is recorded with a run and compared with what is recorded: paths are absolute,
// so that they mean the same from wherever the run goes on.
std::string recorded_value(const OptionSpec& option, const Options& options);

// How a command is written: strata NAME [OPERANDS] [--option VALUE ...].
struct CommandSyntax {
  std::string name;      // "train", "bench io"
  std::string operands;  // "DIR..."; empty: it takes options only
  CommandKind kind;

  // `plan` accepts options that it does not use too, so that a plan can be asked for with the
  // options of the run, and `tune` those of `train`; the others refuse what is not theirs.
  bool takes(const OptionSpec& option) const {
    return kind == CommandKind::plan || option.used_by.contains(kind) ||
           (kind == CommandKind::tune && option.used_by.contains(CommandKind::train));
  }
};

const std::vector<OptionSpec>& option_list();
// What a command does where nothing is given.
Options default_options(CommandKind command);
const char* title_of(OptionGroup group);

}  // namespace strata::engine

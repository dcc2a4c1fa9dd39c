#include "engine/options/option_parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "engine/options/config_file.h"
#include "engine/options/option_list.h"
#include "engine/options/path_check.h"
#include "engine/options/unknown_option.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

void set_option(const OptionSpec& spec, Options& options, std::string_view text,
                std::string_view where) {
  try {
    check_paths(spec, text);
    spec.set(options, text);
    if (!is_given(options, spec.name)) options.given.push_back(spec.name);
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("{}: {}", where, e.what());
  }
}

void require_use(const OptionSpec& spec, const CommandSyntax& command, std::string_view where) {
  if (command.takes(spec)) return;
  throw_error<ConfigError>("{}: strata {} does not have this option; see strata {} --help", where,
                           command.name, command.name);
}

// Of each pair only one may be given: one in an upper layer wins over the other in a lower one.
constexpr std::pair<std::string_view, std::string_view> kRivals[] = {{"steps", "epochs"},
                                                                     {"val-data", "val-fraction"}};

void reset_rival(std::string_view name, Options& options) {
  for (const auto& [one, other] : kRivals) {
    if (name != one && name != other) continue;
    const std::string_view rival = name == one ? other : one;
    for (const OptionSpec& spec : option_list()) {
      if (spec.name == rival) spec.set(options, spec.get(Options()));
    }
  }
}

// Config files may write _ for -.
std::string option_name(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

void apply_config_file(const std::string& path, const CommandSyntax& command, Options& options) {
  const std::vector<OptionSpec>& list = option_list();
  const std::vector<ConfigEntry> entries = read_config_file(path);
  for (const ConfigEntry& entry : entries) reset_rival(option_name(entry.key), options);
  for (const ConfigEntry& entry : entries) {
    const std::string name = option_name(entry.key);
    const auto spec = std::find_if(list.begin(), list.end(),
                                   [&](const OptionSpec& known) { return known.name == name; });
    if (spec == list.end()) {
      throw_error<ConfigError>("{}: unknown option '{}': {}", entry.where, entry.key,
                               explain_unknown_option(entry.key, command));
    }
    require_use(*spec, command, fmt::format("{}: {}", entry.where, entry.key));
    set_option(*spec, options, entry.value, fmt::format("{}: {}", entry.where, entry.key));
  }
}

// What is no option: the command's operands, or a mistake.
std::vector<std::string> operands(const std::vector<std::string>& extras,
                                  const CommandSyntax& command) {
  const auto option = std::find_if(extras.begin(), extras.end(),
                                   [](const std::string& text) { return text.starts_with('-'); });
  if (option == extras.end()) {
    if (!command.operands.empty() || extras.empty()) return extras;
    throw_error<ConfigError>("unexpected argument '{}': every value follows its --option",
                             extras.front());
  }
  const std::string spelled = option->substr(0, option->find('='));
  const std::string name = spelled.substr(std::min(spelled.find_first_not_of('-'), spelled.size()));
  throw_error<ConfigError>("unknown option {}: {}", spelled, explain_unknown_option(name, command));
}

// CLI11 would take the next option for the value.
void refuse_options_as_values(const std::vector<std::string>& arguments) {
  const std::vector<OptionSpec>& list = option_list();
  const auto spec_of = [&](const std::string& argument) {
    return std::find_if(list.begin(), list.end(),
                        [&](const OptionSpec& spec) { return "--" + spec.name == argument; });
  };
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    const auto spec = spec_of(arguments[i]);
    if (spec == list.end() || spec->is_flag || spec_of(arguments[i + 1]) == list.end()) continue;
    throw_error<ConfigError>("{}: the value is missing before {}", arguments[i], arguments[i + 1]);
  }
}

// In our words: what() starts with the option's name.
[[noreturn]] void refuse_unparsed(const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string option = text.substr(0, text.find(':'));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    throw_error<ConfigError>("{}: the value is missing", option);
  }
  throw_error<ConfigError>("the options cannot be read: {}", text);
}

}  // namespace

Options parse_options(const CommandSyntax& command, const std::vector<std::string>& arguments,
                      const Options& base) {
  refuse_options_as_values(arguments);
  CLI::App app;
  app.set_help_flag();  // --help belongs to the commands (cli.cc)
  app.allow_extras();   // so that unknown options reach operands()
  std::vector<CLI::Option*> given;
  for (const OptionSpec& spec : option_list()) {
    CLI::Option* option =
        spec.is_flag ? app.add_flag("--" + spec.name) : app.add_option("--" + spec.name);
    given.push_back(option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast));
  }
  const CLI::Option* config =
      app.add_option("--config")->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);

  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& e) {
    refuse_unparsed(e);
  }
  if (config->count() > 1) throw ConfigError("--config is given twice: give one file");

  Options options = base;
  options.arguments = operands(app.remaining(), command);
  for (const std::string& path : options.arguments) check_path(path, OptionPaths::folder);
  options.given.clear();
  for (const std::string& path : config->results()) apply_config_file(path, command, options);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i]->count() > 0) reset_rival(option_list()[i].name, options);
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i]->count() == 0) continue;
    const OptionSpec& spec = option_list()[i];
    require_use(spec, command, "--" + spec.name);
    set_option(spec, options, given[i]->results().back(), "--" + spec.name);
  }
  return options;
}

}  // namespace strata::engine

#include <CLI/CLI.hpp>
#include <algorithm>

#include "engine/options/config_file.h"
#include "engine/options/option_list.h"
#include "engine/options/unknown_option.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

void set_option(const OptionSpec& spec, Options& options, std::string_view text,
                std::string_view where) {
  try {
    spec.set(options, text);
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("{}: {}", where, e.what());
  }
}

void apply_config_file(const std::string& path, Options& options) {
  const std::vector<OptionSpec>& list = option_list();
  for (const ConfigEntry& entry : read_config_file(path)) {
    std::string name = entry.key;
    std::replace(name.begin(), name.end(), '_', '-');
    const auto spec = std::find_if(list.begin(), list.end(),
                                   [&](const OptionSpec& known) { return known.name == name; });
    if (spec == list.end()) {
      throw_error<ConfigError>("{}: unknown option '{}': {}", entry.where, entry.key,
                               explain_unknown_option(entry.key));
    }
    set_option(*spec, options, entry.value, fmt::format("{}: {}", entry.where, entry.key));
  }
}

[[noreturn]] void refuse_extra(const std::vector<std::string>& extras) {
  const auto option = std::find_if(extras.begin(), extras.end(),
                                   [](const std::string& text) { return text.starts_with('-'); });
  if (option == extras.end()) {
    throw_error<ConfigError>("unexpected argument '{}': every value follows its --option",
                             extras.front());
  }
  const std::string spelled = option->substr(0, option->find('='));
  const std::string name = spelled.substr(std::min(spelled.find_first_not_of('-'), spelled.size()));
  throw_error<ConfigError>("unknown option {}: {}", spelled, explain_unknown_option(name));
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  CLI::App app;
  app.set_help_flag();  // --help belongs to the commands (cli.cc)
  app.allow_extras();   // so that unknown options reach refuse_extra()
  std::vector<CLI::Option*> given;
  for (const OptionSpec& spec : option_list()) {
    CLI::Option* option =
        spec.is_flag ? app.add_flag("--" + spec.name) : app.add_option("--" + spec.name);
    given.push_back(option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast));
  }
  const CLI::Option* config = app.add_option("--config");

  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& e) {
    throw ConfigError(e.what());
  }
  if (app.remaining_size() > 0) refuse_extra(app.remaining());

  Options options;
  for (const std::string& path : config->results()) apply_config_file(path, options);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i]->count() == 0) continue;
    const OptionSpec& spec = option_list()[i];
    set_option(spec, options, given[i]->results().back(), "--" + spec.name);
  }
  return options;
}

}  // namespace strata::engine

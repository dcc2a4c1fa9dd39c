#include "engine/tune/command_text.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "engine/options/option_changes.h"
#include "engine/options/option_list.h"

namespace strata::engine {

namespace {

constexpr std::string_view kOfTheCommand = "json";  // of tune's own output

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "-_./:=,+@%";
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

// Of a run that goes on, what is not given is as recorded, not as by default.
bool counts_as_recorded(const Options& options, const OptionSpec& option) {
  return options.resume &&
         (option.group == OptionGroup::tiers || allows_change(options, option.name));
}

}  // namespace

std::vector<std::string> train_words(const Options& options) {
  const Options defaults = default_options(CommandKind::train);
  std::vector<std::string> words = {"train"};
  for (const OptionSpec& option : option_list()) {
    const bool of_train = option.used_by.contains(CommandKind::train);
    if (!of_train || option.name == kOfTheCommand) continue;
    const std::string value = option.get(options);
    if (value == option.get(defaults) && !counts_as_recorded(options, option)) continue;
    words.push_back("--" + option.name);
    if (!option.is_flag) words.push_back(value);
  }
  return words;
}

std::string train_command(const Options& options) {
  std::string text = "strata";
  for (const std::string& word : train_words(options)) text += ' ' + quoted(word);
  return text;
}

}  // namespace strata::engine

#include "engine/options/option_help.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace strata::engine {
namespace {

constexpr std::size_t kWidth = 96;
constexpr std::size_t kHelpColumn = 34;

// Appends `text` broken at blanks; the cursor stands at `column`, further lines start at
// kHelpColumn.
void append_wrapped(std::string& out, std::string_view text, std::size_t column) {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (column > kHelpColumn && column + 1 + word.size() > kWidth) {
      out += '\n' + std::string(kHelpColumn, ' ');
      column = kHelpColumn;
    } else if (column > kHelpColumn) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  out += '\n';
}

void append_option(std::string& out, std::string_view name, std::string_view hint,
                   std::string_view help) {
  const std::string usage = fmt::format("  --{} {}", name, hint);
  out += usage;
  if (usage.size() + 2 > kHelpColumn) {
    out += '\n' + std::string(kHelpColumn, ' ');
  } else {
    out += std::string(kHelpColumn - usage.size(), ' ');
  }
  append_wrapped(out, help, kHelpColumn);
}

}  // namespace

std::string options_help(const CommandSyntax& command) {
  std::string out = fmt::format("usage: strata {} {}{}[--option VALUE ...]\n", command.name,
                                command.operands, command.operands.empty() ? "" : " ");
  const Options defaults;
  std::optional<OptionGroup> group;
  for (const OptionSpec& spec : option_list()) {
    if (!spec.used_by.contains(command.kind)) continue;
    if (group != spec.group) {
      group = spec.group;
      out += fmt::format("\n{}\n", title_of(spec.group));
    }
    const std::string value = spec.is_flag || !spec.shows_default ? "" : spec.get(defaults);
    append_option(out, spec.name, spec.is_flag ? "" : spec.value_hint,
                  value.empty() ? spec.help : fmt::format("{} [{}]", spec.help, value));
  }
  out += "\nOther\n";
  append_option(out, "config", "FILE",
                "Read options from a file of 'option = value' lines or a flat JSON object; the "
                "command line wins");
  append_option(out, "help", "", "Show this");
  out += "\nDefaults stand in brackets. Sizes read like 24GiB or 512MB.\n";
  if (command.kind == CommandKind::plan) {
    out += "The other options of strata train may be given too, and change nothing here.\n";
  }
  return out;
}

std::string options_summary(const Options& options) {
  const Options defaults;
  std::string out;
  for (const OptionSpec& spec : option_list()) {
    const std::string value = spec.get(options);
    if (value != spec.get(defaults)) out += fmt::format("{} = {}\n", spec.name, value);
  }
  return out;
}

}  // namespace strata::engine

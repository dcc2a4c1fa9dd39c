#include "engine/options/option_help.h"

#include <fmt/format.h>

#include <optional>

#include "engine/options/wrapped_text.h"

namespace strata::engine {
namespace {

constexpr std::size_t kWidth = 96;
constexpr std::size_t kHelpColumn = 34;

void append_option(std::string& out, std::string_view name, std::string_view hint,
                   std::string_view help) {
  const std::string usage = fmt::format("  --{} {}", name, hint);
  out += usage;
  if (usage.size() + 2 > kHelpColumn) {
    out += '\n' + std::string(kHelpColumn, ' ');
  } else {
    out += std::string(kHelpColumn - usage.size(), ' ');
  }
  append_wrapped(out, help, kHelpColumn, kWidth);
}

}  // namespace

std::string options_help(const CommandSyntax& command) {
  std::string out = fmt::format("usage: strata {} {}{}[--option VALUE ...]\n", command.name,
                                command.operands, command.operands.empty() ? "" : " ");
  const Options defaults = default_options(command.kind);
  std::optional<OptionGroup> group;
  bool takes_sizes = false;
  for (const OptionSpec& spec : option_list()) {
    if (!spec.used_by.contains(command.kind)) continue;
    if (group != spec.group) {
      group = spec.group;
      out += fmt::format("\n{}\n", title_of(spec.group));
    }
    const auto other = spec.help_of.find(command.kind);
    const std::string& help = other == spec.help_of.end() ? spec.help : other->second;
    takes_sizes = takes_sizes || spec.value_hint.find("SIZE") != std::string::npos;
    const std::string value = spec.is_flag || !spec.shows_default ? "" : spec.get(defaults);
    append_option(out, spec.name, spec.is_flag ? "" : spec.value_hint,
                  value.empty() ? help : fmt::format("{} [{}]", help, value));
  }
  out += "\nOther\n";
  append_option(out, "config", "FILE",
                "Read options from a file of 'option = value' lines or a flat JSON object; the "
                "command line wins");
  append_option(out, "help", "", "Show this");
  out += fmt::format("\nDefaults stand in brackets.{}\n",
                     takes_sizes ? " Sizes read like 24GiB or 512MB." : "");
  if (command.kind == CommandKind::tune) {
    out +=
        "The options of strata train may be given too; they stay as they are, and stand in the "
        "commands shown.\n";
  }
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

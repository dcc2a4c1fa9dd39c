#include "engine/options/option_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "engine/options/option_list.h"
#include "kernels/base/error.h"

namespace strata::engine {
namespace {

bool rates_depend_on_length(const Options& o) {
  return o.lr_schedule != "constant" || o.warmup.ends_with('%');
}

}  // namespace

std::vector<OptionChange> changed_mathematics(const Options& recorded, const Options& wanted) {
  const bool length_counts = rates_depend_on_length(recorded) || rates_depend_on_length(wanted);
  std::vector<OptionChange> changes;
  for (const OptionSpec& spec : option_list()) {
    if (!spec.mathematical) continue;
    const bool is_length = spec.name == "steps" || spec.name == "epochs";
    if (is_length && !length_counts) continue;
    OptionChange change{spec.name, recorded_value(spec, recorded), recorded_value(spec, wanted)};
    if (change.recorded != change.wanted) changes.push_back(std::move(change));
  }
  return changes;
}

void require_same_mathematics(const Options& recorded, const Options& wanted,
                              const std::string& recorded_in) {
  std::vector<std::string> changes;
  std::vector<std::string> names;
  for (const OptionChange& change : changed_mathematics(recorded, wanted)) {
    if (allows_change(wanted, change.name)) continue;
    changes.push_back(
        fmt::format("--{} was '{}' and is now '{}'", change.name, change.recorded, change.wanted));
    names.push_back(change.name);
  }
  if (changes.empty()) return;
  names.insert(names.begin(), wanted.allow_change.begin(), wanted.allow_change.end());
  throw_error<ConfigError>(
      "{}: {}, which would change what the run computes; give what it was, or --allow-change {}",
      recorded_in, fmt::join(changes, ", "), fmt::join(names, ","));
}

bool allows_change(const Options& options, std::string_view name) {
  const std::vector<std::string>& names = options.allow_change;
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool allows_other_arithmetic(const Options& options) {
  constexpr const char* kDecisive[] = {kArithmeticChange, "model",        "device",
                                       "precision",       "matmul-dtype", "isa"};
  return std::any_of(std::begin(kDecisive), std::end(kDecisive),
                     [&](const char* name) { return allows_change(options, name); });
}

}  // namespace strata::engine

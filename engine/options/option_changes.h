// Which options of a run that goes on differ from those it was begun with, where that gives other
// weights.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/options/options.h"

namespace strata::engine {

struct OptionChange {
  std::string name;  // "lr"
  std::string recorded;
  std::string wanted;
};

// Of the options that are mathematical (option_list.h); of --steps and --epochs only where the
// learning rate depends on the length of the run.
std::vector<OptionChange> changed_mathematics(const Options& recorded, const Options& wanted);

// Throws ConfigError that names every change that `wanted` does not allow, both its values, and the
// --allow-change that would. `recorded_in`: whose options the recorded ones are, "--run DIR".
void require_same_mathematics(const Options& recorded, const Options& wanted,
                              const std::string& recorded_in);

// Whether --allow-change names it.
bool allows_change(const Options& options, std::string_view name);

// Whether matrix products may be computed otherwise than was recorded: by name, or because an
// option that decides it may change.
bool allows_other_arithmetic(const Options& options);

}  // namespace strata::engine

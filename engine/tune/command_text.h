// The command line that trains with some options: what tune shows, to be copied into a shell, and
// what it starts to measure.
#pragma once

#include <string>
#include <vector>

#include "engine/options/options.h"

namespace strata::engine {

// The words after the program's name: "train", and every option of train that is not as by default,
// or with --resume perhaps not as recorded, but --json. Parsed, they give the options again; those
// of a --config file stand there one by one.
std::vector<std::string> train_words(const Options& options);

// With "strata" before them, quoted where a shell needs it.
std::string train_command(const Options& options);

}  // namespace strata::engine

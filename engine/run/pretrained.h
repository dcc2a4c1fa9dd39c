// The weights that a run begins with, where --model is a folder that has some.
#pragma once

#include <memory>
#include <string>

#include "engine/plan/run_setup.h"
#include "engine/portable/hf_filler.h"

namespace strata::engine {

// Throws ConfigError for a run that would begin with random weights though its --model is a
// published one: that takes --from-scratch.
void check_weights_exist(const Options& options);

// Opened and checked for all but the values; null where the weights are random, or those of
// --resume-from. Throws as HfFiller does.
std::unique_ptr<HfFiller> open_pretrained(const RunSetup& setup);

// Where the weights of a run come from that goes on from nothing, for people.
std::string weights_text(const RunSetup& setup, const HfFiller* pretrained);

}  // namespace strata::engine

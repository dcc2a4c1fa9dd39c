// The weights that a run begins with, where --model is a folder that has some.
#pragma once

#include <memory>
#include <string>

#include "engine/plan/run_setup.h"
#include "engine/portable/model_filler.h"

namespace strata::engine {

// Opened and checked for all but the values; null where the weights are random, or those of
// --resume-from. Throws as ModelFiller does, and ConfigError where random weights would take
// --from-scratch.
std::unique_ptr<ModelFiller> open_pretrained(const RunSetup& setup);

// Where the weights of a run come from that goes on from nothing, for people.
std::string weights_text(const RunSetup& setup, const ModelFiller* pretrained);

}  // namespace strata::engine

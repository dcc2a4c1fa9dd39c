// Whether data were made with the tokenizer of the model, for every command that reads both.
#pragma once

#include <string>

#include "engine/data/training_data.h"
#include "engine/plan/run_setup.h"

namespace strata::engine {

// check_tokenizer() (training_data.h) with the tokenizer.json in the model's folder. Throws
// FormatError naming that file, too.
std::string check_tokenizer(const RunSetup& setup, const TrainingData& data);

}  // namespace strata::engine

// How long a run is: its steps, its evaluations, and their data.
#pragma once

#include <cstdint>
#include <string>

#include "engine/data/sample_order.h"
#include "engine/data/training_data.h"
#include "engine/plan/run_setup.h"

namespace strata::engine {

// Steps of the whole run: --steps, or what --epochs come to.
std::int64_t step_count(const RunSetup& setup, const TrainingData& data);

// Tokens, without padding, of the samples before `position`.
std::int64_t tokens_before(const Samples& data, const SampleOrder& order, std::int64_t position);

// Whether step `step`, counted from 1, is followed by an evaluation.
bool evaluates(const RunSetup& setup, const TrainingData& data, std::int64_t step);

// Evaluations of the whole run, the one before training included.
std::int64_t evaluation_count(const RunSetup& setup, const TrainingData& data);

// Sequences of one evaluation, over all ranks.
std::int64_t evaluation_sequences(const RunSetup& setup, const TrainingData& data);

// "16 of 298 sequences" where that is not all of the validation data, otherwise "".
std::string evaluated_part(const RunSetup& setup, const TrainingData& data);

}  // namespace strata::engine

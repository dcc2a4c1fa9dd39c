// What `train` shows of a run before its first step, to people.
#pragma once

#include <string>

#include "engine/data/training_data.h"
#include "engine/plan/run_setup.h"
#include "engine/portable/hf_filler.h"
#include "engine/run/durable_run.h"
#include "engine/run/session.h"

namespace strata::engine {

struct StartReport {
  const RunSetup& setup;
  const TrainingData& data;
  Session& session;
  const DurableRun* durable;        // null: nothing outlives the run
  const HfFiller* pretrained;       // null: random weights, or a run that goes on
  const std::string& binding;       // of threads to cores
  const std::string& tokenizer;     // a warning
  const std::string& other_stores;  // left where this run's state lies
};

// What the run is, its options, and the plan.
void print_start(const StartReport& report);

// The bound of a step, phase by phase.
void print_bound(const Session& session);

// Of a run with state on NVMe, once the buffers are registered with it, or not.
void print_storage(Session& session);

}  // namespace strata::engine

// InferenceRun: what eval and generate do before their own work: the model that --model names, what
// this means for the machine, and the weights on their tiers. In two steps, so that everything that
// can be refused is, before memory is reserved:
//
//   read_model() ─▶ (data, a prompt: whatever else may be wrong) ─▶ InferenceRun
//
// Both are collective. Thread contract: one thread.
#pragma once

#include <memory>
#include <string>

#include "engine/infer/inference.h"
#include "engine/infer/stored_weights.h"
#include "engine/options/options.h"
#include "engine/plan/run_setup.h"
#include "engine/portable/hf_filler.h"
#include "engine/run/ranks.h"
#include "engine/run/session.h"

namespace strata::engine {

// A model whose weights can be read.
struct ReadableModel {
  RunSetup setup;                         // for inference
  std::unique_ptr<StoredWeights> stored;  // of a run
  std::unique_ptr<HfFiller> folder;       // of a Hugging Face folder; neither: random weights

  std::string weights_text() const;  // where they come from, for people
};

// Throws what make_run_setup(), StoredWeights and open_pretrained() throw, and ConfigError when
// weights have to lie on NVMe and there is no place for them.
ReadableModel read_model(const Options& options, Ranks& ranks);

class InferenceRun {
 public:
  // `model` and `ranks` must outlive this; the source of the weights is closed.
  InferenceRun(ReadableModel& model, Ranks& ranks);

  const RunSetup& setup() const { return setup_; }
  Session& session() { return session_; }
  Inference& inference() { return inference_; }

 private:
  TrainerParts parts_with(ReadableModel& model);

  const RunSetup& setup_;
  Session session_;
  std::unique_ptr<StateFiller> filler_;
  Inference inference_;
};

}  // namespace strata::engine

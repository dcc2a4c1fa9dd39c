// Inference: a model that is read and not trained: its working weights on the tiers, streamed to
// the device as in training, and the passes that run on them. It has no gradients, moments or
// optimizer, and reserves what the plan of a setup for inference says, at construction; nothing
// afterwards.
//
// All ranks call the same functions in the same order. Thread contract: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/data/samples.h"
#include "engine/plan/run_setup.h"
#include "engine/step/batch_loader.h"
#include "engine/step/compute_guard.h"
#include "engine/step/decode_pass.h"
#include "engine/step/evaluation.h"
#include "engine/step/model_pass.h"
#include "engine/step/trainer_parts.h"
#include "kernels/device/device.h"
#include "offload/activation_store.h"
#include "offload/state_store.h"
#include "offload/weight_streamer.h"

namespace strata::engine {

class Inference {
 public:
  // `setup`: made for Purpose::inference; it and what `parts` names must outlive this. Fills the
  // weights: from parts.filler, or without one with the model's initial values.
  Inference(const RunSetup& setup, const TrainerParts& parts);

  // Over the first `samples` samples of `data`, shared among the ranks.
  EvaluationTotals evaluate(const Samples& data, std::int64_t samples);

  // With a prompt: logits (V) of the token after all those given so far and these, in all no more
  // than the setup has positions for (RunSetup::decode). Valid until the next call of anything
  // here.
  std::span<const float> next_logits(std::span<const std::int32_t> tokens) {
    return decode_->next_logits(tokens, nullptr);
  }

 private:
  void load();

  const RunSetup& setup_;
  TrainerParts parts_;
  DeviceBuffer comm_staging_;
  std::unique_ptr<Stream> compute_;
  offload::StateStore store_;
  offload::WeightStreamer weights_;
  offload::ActivationStore activations_;
  ModelPass pass_;
  std::optional<DecodePass> decode_;  // with a prompt
  BatchLoader loader_;
  DeviceBuffer results_;
  PinnedBuffer host_results_;
  ComputeGuard guard_{*compute_, parts_.failure};
};

}  // namespace strata::engine

// Evaluation: the loss of a model on sequences of data, by forward passes alone: what training and
// `strata eval` share.
//
// The sequences are dealt to the ranks in order. A rank adds losses in f64, in the order of rows;
// the ranks' sums are added in rank order, so every rank has the same totals. Collective.
#pragma once

#include <cstdint>

#include "engine/data/samples.h"
#include "engine/plan/batch_layout.h"
#include "engine/step/batch_loader.h"
#include "engine/step/model_pass.h"
#include "kernels/device/device.h"
#include "offload/comm/communicator.h"
#include "offload/weight_streamer.h"

namespace strata::engine {

struct EvaluationTotals {
  double loss_sum = 0;  // of -log p(target), in nats
  std::int64_t targets = 0;
  std::int64_t correct = 0;  // no other token was likelier

  double loss() const { return loss_sum / static_cast<double>(targets); }
  double perplexity() const;
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(targets); }
};

struct EvaluationParts {
  const BatchLayout& layout;
  ModelPass& pass;
  BatchLoader& loader;
  Stream& compute;
  comm::Communicator& comm;
  // At least Device::kAlignmentBytes, on the device and pinned.
  DeviceBuffer& results;
  PinnedBuffer& host_results;
};

// Of the first `sequences` sequences of `data`. `updates`: those that are pending, or null.
EvaluationTotals evaluate(const EvaluationParts& parts, const Samples& data, std::int64_t sequences,
                          offload::PendingUpdates* updates);

}  // namespace strata::engine

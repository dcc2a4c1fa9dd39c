// ModelPass: one pass of a step: each unit is leased once and runs all micro-batches of the pass
// while it is resident, forward and then backward. This is the place where models/ and offload/
// meet.
//
// Everything is enqueued on the compute stream; functions return before it is done.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan/model_walk.h"
#include "engine/plan/pass_sizes.h"
#include "engine/step/rotary_memory.h"
#include "kernels/device/device.h"
#include "models/decoder_block.h"
#include "models/output_head.h"
#include "offload/activation_store.h"
#include "offload/gradient_sink.h"
#include "offload/plan.h"
#include "offload/weight_streamer.h"

namespace strata::engine {

// One micro-batch, in device memory: token ids and targets (B·T), and what `batch` points to.
struct MicroBatch {
  models::Batch batch;
  const std::int32_t* tokens = nullptr;
  const std::int32_t* targets = nullptr;
};

// What a pass contributes to the gradients of its step.
struct PassOrder {
  bool first = true;  // of the step
  bool last = true;
};

class ModelPass {
 public:
  // `gradients`: null for inference, which has no training pass.
  ModelPass(const PassShape& shape, std::vector<models::UnitSpec> units, const offload::Plan& plan,
            Device& device, Stream& compute, offload::WeightStreamer& weights,
            offload::ActivationStore& activations, offload::GradientSink* gradients);

  // The two halves of training on the same batches. *loss_sum (device, f64) += the loss of every
  // target token. `updates` are applied as units are first leased: when forward() returns, all have
  // been.
  void forward(std::span<const MicroBatch> batches, double* loss_sum,
               offload::PendingUpdates* updates);
  // Gradients are those of scale × the sum of these batches' losses.
  void backward(std::span<const MicroBatch> batches, PassOrder order, float scale);

  // Forward only. Adds to *counts (device) too, unless it is null.
  void evaluate(std::span<const MicroBatch> batches, double* loss_sum,
                offload::PendingUpdates* updates, ops::TargetCounts* counts = nullptr);

  // Gathers every unit once and does nothing with it: applies all pending updates.
  void gather_all(offload::PendingUpdates* updates);

 private:
  struct Walk {
    WalkKind kind;
    int micro_batches;
    std::vector<offload::ScheduledUse> uses;
    std::vector<offload::ScheduledAccess> accesses;
  };
  const Walk& walk(WalkKind kind, std::size_t micro_batches);
  void begin(WalkKind kind, std::span<const MicroBatch> batches, offload::PendingUpdates* updates);
  void end();

  void embed(std::span<const MicroBatch> batches);
  void embed_rows(int table, const std::int32_t* (*ids)(const MicroBatch&), ops::Into into,
                  std::span<const MicroBatch> batches);
  void blocks_forward(std::span<const MicroBatch> batches, WalkKind kind);
  void head_forward(std::span<const MicroBatch> batches, double* loss_sum,
                    ops::TargetCounts* counts = nullptr);
  void head_backward(std::span<const MicroBatch> batches, PassOrder order, float scale);
  void blocks_backward(std::span<const MicroBatch> batches, PassOrder order);
  void embed_backward(std::span<const MicroBatch> batches, PassOrder order);
  void embed_rows_backward(int table, const std::int32_t* (*ids)(const MicroBatch&),
                           std::span<const MicroBatch> batches);
  void final_norm(std::span<const MicroBatch> batches);

  float* open_gradients(int unit, std::span<const MicroBatch> batches);
  std::byte* open_saved(int layer, int micro_batch);
  // The head's memory of one micro-batch, whose records the caller has opened (or has not: null).
  models::HeadMemory head_memory(int micro_batch, std::byte* normed, std::byte* dnormed) const;
  const models::UnitSpec& unit(int index) const { return units_[static_cast<std::size_t>(index)]; }
  const models::TensorSpec& table(int unit) const { return this->unit(unit).tensors[0]; }

  PassShape shape_;
  std::vector<models::UnitSpec> units_;
  UnitIndex index_;
  WalkShape walk_shape_;
  const offload::Plan& plan_;
  Stream& compute_;
  offload::WeightStreamer& weights_;
  offload::ActivationStore& activations_;
  offload::GradientSink* gradients_;
  RotaryMemory rotary_;
  models::DecoderBlock block_;
  models::OutputHead head_;
  DeviceBuffer saved_;            // of the block at hand, with recompute
  std::int64_t head_rows_bytes_;  // of one micro-batch
  DeviceBuffer head_rows_;        // per micro-batch
  DeviceBuffer workspace_;        // block backward and head, in turn
  std::vector<Walk> walks_;       // those used so far
};

}  // namespace strata::engine

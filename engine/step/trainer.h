// Trainer: a model, its state on the tiers, and the step. Everything is reserved at construction,
// as planned; step() allocates nothing after the first.
//
// The step, with the optimizer deferred (a norm to wait for) or in backward:
//
//   step k:  forward (each unit's update of step k-1 just before its first use) ▸ backward ▸ norm
//   after:   every unit is pending until its next use, an evaluation, a sample or drain()
//
// In a durable run an UpdateGate hears when updates have been applied, and holds the next ones.
//
// All ranks call the same functions in the same order. Thread contract: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/sample_order.h"
#include "engine/data/samples.h"
#include "engine/plan/run_setup.h"
#include "engine/step/batch_loader.h"
#include "engine/step/compute_guard.h"
#include "engine/step/decode_pass.h"
#include "engine/step/gradient_store.h"
#include "engine/step/model_pass.h"
#include "engine/step/state_access.h"
#include "engine/step/state_filler.h"
#include "engine/step/streaming_optimizer.h"
#include "engine/step/trainer_parts.h"
#include "engine/step/update_gate.h"
#include "io/storage.h"
#include "kernels/device/device.h"

namespace strata::engine {

struct StepResult {
  double loss = 0;             // mean over the step's targets, all ranks; NaN without any
  double grad_norm = 0;        // global, before clipping
  RowCounts rows;              // of all ranks
  bool skipped = false;        // no update: without a target, or --on-nonfinite skip
  std::uint32_t requests = 0;  // of all ranks: StepRequest
  offload::Traffic traffic;    // without an update that is still pending
  // To NVMe, by the commit of an earlier step that was made meanwhile.
  std::int64_t commit_written_bytes = 0;
};

class Trainer {
 public:
  // Reserves everything and fills the state on its tiers.
  Trainer(const RunSetup& setup, const TrainerParts& parts);

  // From here on. All ranks have one, or none has; it must outlive the last step.
  void hold_updates_at(UpdateGate& gate) { gate_ = &gate; }

  // What a run goes on from, and with, after a step: the optimizer's part of a snapshot.
  struct Progress {
    std::int64_t updates = 0;  // the optimizer's steps: without those skipped
    std::int64_t skipped_in_a_row = 0;
  };
  const Progress& progress() const { return progress_; }
  void go_on_from(const Progress& progress) { progress_ = progress; }

  // Trains on samples [position, position + global batch) of `order`. A step without a target on
  // any rank computes nothing.
  StepResult step(const Samples& data, const SampleOrder& order, std::int64_t position,
                  double learning_rate);

  // Mean loss over the targets of the first `samples` samples of `data`, with every update applied.
  // Throws TrainingError when they have none.
  double evaluate(const Samples& data, std::int64_t samples);

  // Where samples were asked for (setup.decode): logits (V) of the token after those given since
  // restart_sample() and these, in all no more than setup.decode.positions, with every update
  // applied. Valid until the next call of anything here. No training between the calls of one
  // sample.
  void restart_sample();
  std::span<const float> next_logits(std::span<const std::int32_t> tokens);

  // Applies every pending update and waits until all state is on its tier.
  void drain();

  // The f32 masters of this rank's shard of a unit; drains first.
  std::vector<float> master(int unit);

  // Deferred: whether the last step's update is still to come, and what it moved once it has.
  bool update_pending() const { return optimizer_.any_pending(); }
  const offload::Traffic& update_traffic() const { return deferred_update_traffic_; }
  // The state itself, and the plan's checkpoint staging (empty without a run folder): for whoever
  // makes it durable.
  offload::StateStore& state() { return store_; }
  AlignedSpan checkpoint_staging() const { return checkpoint_staging_.span(); }
  // All that was moved since construction, the initial state included.
  const offload::Ledger& ledger() const { return store_.ledger(); }

 private:
  // What steps are charged with, since construction, when nothing is on its way.
  struct Settled {
    offload::Traffic traffic;
    std::int64_t commit_written_bytes = 0;
  };
  struct Totals {
    double loss_sum;
    double square_sum;
    double finite;
    std::uint32_t requests;
  };
  Totals sum_over_ranks(const Totals& mine);
  RowCounts step_rows(const Samples& data, const RowCounts& mine);
  StepResult empty_step(const RowCounts& rows);
  std::uint32_t take_requests();
  void wait_for_gate_in_step();
  void apply_pending();
  void updates_applied();
  void settle();
  void settle(StepResult& result);
  Settled count() const;
  optim::StepSettings step_settings(double gradient_scale) const;
  double read_loss_sum();
  void zero_loss_sum();
  void run_passes(std::span<const MicroBatch> batches, std::int64_t targets);
  offload::PendingUpdates* pending_updates();
  bool deferred() const { return setup_.plan.update == offload::UpdateTime::deferred; }

  const RunSetup& setup_;
  TrainerParts parts_;
  TraceTrack row_;  // of the main thread
  DeviceBuffer comm_staging_;
  std::unique_ptr<Stream> compute_;
  std::unique_ptr<optim::DeviceOptimizer> device_optimizer_;  // of a GPU
  offload::StateStore store_;
  StreamingOptimizer optimizer_;
  GradientStore gradient_store_;
  offload::WeightStreamer weights_;
  offload::ActivationStore activations_;
  offload::GradientSink gradients_;
  ModelPass pass_;
  std::optional<DecodePass> decode_;  // where samples were asked for
  BatchLoader loader_;
  DeviceBuffer results_;  // loss sum f64
  PinnedBuffer host_results_;
  StateAccess access_;
  PinnedBuffer checkpoint_staging_;
  std::vector<Totals> gathered_;  // of every rank
  std::vector<RowCounts> gathered_rows_;
  UpdateGate* gate_ = nullptr;
  Progress progress_;
  Settled settled_;  // at the end of whatever was done last
  offload::Traffic deferred_update_traffic_;
  ComputeGuard guard_{*compute_, parts_.failure};
};

}  // namespace strata::engine

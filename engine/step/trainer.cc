#include "engine/step/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/step/evaluation.h"
#include "kernels/base/error.h"
#include "kernels/base/span_names.h"

namespace strata::engine {

using offload::UpdateTime;

namespace {

// --on-nonfinite skip is for a bad batch, not for a model that has diverged.
constexpr std::int64_t kSkippedInARowMax = 20;

std::vector<int> update_order(const RunSetup& setup) {
  return setup.plan.update == UpdateTime::deferred ? first_use_order(setup.index)
                                                   : gradient_order(setup.index);
}

GradientStore::TrainedRanges trained_elements(const RunSetup& setup) {
  GradientStore::TrainedRanges trained;
  for (std::size_t u = 0; u < setup.units.size(); ++u) {
    const std::int64_t shard = setup.plan.units[u].shard_elements;
    const std::int64_t first = setup.topology.rank * shard;
    trained.push_back(trained_ranges(setup.parameter_groups[u], first, first + shard));
  }
  return trained;
}

}  // namespace

Trainer::Trainer(const RunSetup& setup, const TrainerParts& parts)
    : setup_(setup),
      parts_(parts),
      row_(parts.tracer, span_names::kMain),
      comm_staging_(parts.comm.attach(parts.device)),
      compute_(parts.device.make_stream("compute")),
      device_optimizer_(setup.device.gpu ? optim::make_device_optimizer(setup.device.gpu->backend)
                                         : nullptr),
      store_(setup.plan, parts.device, parts.storage, parts.workers),
      optimizer_({store_, parts.device, parts.workers, parts.tracer, setup.topology.rank,
                  device_optimizer_.get()},
                 update_order(setup), setup.parameter_groups, setup.options.weight_decay,
                 setup.isa),
      gradient_store_(store_, parts.device, parts.workers, trained_elements(setup), setup.isa,
                      setup.plan.update == UpdateTime::deferred ? nullptr : &optimizer_,
                      parts.tracer, device_optimizer_.get()),
      weights_(store_, parts.device, *compute_, parts.comm, parts.failure, parts.tracer),
      activations_(store_, parts.device, *compute_, parts.failure, parts.tracer),
      gradients_(setup.plan, parts.device, *compute_, parts.comm, gradient_store_, store_.ledger(),
                 parts.failure, parts.tracer),
      pass_(setup.shape, setup.units, setup.plan, parts.device, *compute_, weights_, activations_,
            &gradients_),
      loader_(setup.batch, parts.device, *compute_, store_.ledger()),
      results_(parts.device.allocate(kResultsTag, kResultsBytes)),
      host_results_(parts.device.allocate_pinned(kResultsTag, kResultsBytes)),
      access_(store_, parts.device, optimizer_.scratch()),
      checkpoint_staging_(parts.device.allocate_pinned(offload::kCheckpointStagingTag,
                                                       setup.plan.checkpoint_staging_bytes())),
      gathered_(static_cast<std::size_t>(setup.topology.world_size)),
      gathered_rows_(gathered_.size()) {
  if (setup.decode.positions > 0) {
    decode_.emplace(setup.decode, setup.units, setup.plan, parts.device, *compute_, weights_);
  }
  fill_state(parts, setup, store_, access_, checkpoint_staging());
  settle();
}

StepResult Trainer::step(const Samples& data, const SampleOrder& order, std::int64_t position,
                         double learning_rate) {
  const TraceSpan span(row_, span_names::kStep);
  const int rank = setup_.topology.rank;
  const LoadedBatches loaded = loader_.load(
      data, [&](std::int64_t p) { return order.at(p); },
      position + setup_.batch.first_sequence(rank), setup_.batch.sequences(rank));
  StepResult result;
  result.rows = step_rows(data, loaded.rows);
  if (result.rows.targets == 0) return empty_step(result.rows);
  zero_loss_sum();
  gradient_store_.begin_step();
  if (!deferred()) optimizer_.begin_step(step_settings(1.0), learning_rate);
  run_passes(loaded.batches, result.rows.targets);
  const double loss_sum = read_loss_sum();
  gradients_.drain();
  const GradientStore::Norm norm = gradient_store_.finish();
  if (deferred() && gate_ != nullptr) {
    const TraceSpan wait(row_, span_names::kWaitCommit);
    gate_->before_updates();
  }
  settle(result);

  const Totals total =
      sum_over_ranks({loss_sum, norm.square_sum, norm.finite ? 1.0 : 0.0, take_requests()});
  if (deferred() && gate_ != nullptr) gate_->updates_may_start();
  result.requests = total.requests;
  result.loss = total.loss_sum / static_cast<double>(result.rows.targets);
  result.grad_norm = std::sqrt(total.square_sum);
  const bool finite = total.finite == setup_.topology.world_size && std::isfinite(result.loss) &&
                      std::isfinite(result.grad_norm);
  if (!finite && setup_.options.on_nonfinite == "stop") {
    throw_error<TrainingError>(
        "the loss is {} and the gradient norm {} after {} updates; lower --lr, or go on past such "
        "steps with --on-nonfinite skip",
        std::abs(result.loss), std::abs(result.grad_norm),
        progress_.updates);  // a NaN may have a sign
  }
  result.skipped = !finite;
  if (result.skipped) {
    if (++progress_.skipped_in_a_row == kSkippedInARowMax) {
      throw_error<TrainingError>(
          "{} steps in a row had a loss or gradient that is not finite; lower --lr",
          kSkippedInARowMax);
    }
    return result;
  }
  progress_.skipped_in_a_row = 0;
  if (deferred()) {
    const double clip = setup_.options.clip_norm;
    // As torch.nn.utils.clip_grad_norm_ does.
    const double scale = clip > 0 ? std::min(1.0, clip / (result.grad_norm + 1e-6)) : 1.0;
    optimizer_.begin_step(step_settings(scale), learning_rate);
  }
  ++progress_.updates;
  return result;
}

// The rows of the step on all ranks, which the scale of its gradients needs before backward.
RowCounts Trainer::step_rows(const Samples& data, const RowCounts& mine) {
  if (const auto targets = data.targets_per_sample()) {
    const std::int64_t rows = setup_.batch.tokens_per_step();
    return {*targets * setup_.batch.global_batch, rows, rows};
  }
  parts_.comm.all_gather_host(std::as_bytes(std::span(&mine, 1)),
                              std::as_writable_bytes(std::span(gathered_rows_)));
  RowCounts total;
  for (const RowCounts& each : gathered_rows_) total += each;
  return total;
}

// Goes by without an update: what waits for the last one, or to be committed, does so no longer.
StepResult Trainer::empty_step(const RowCounts& rows) {
  StepResult result;
  result.rows = rows;
  result.skipped = true;
  result.loss = std::numeric_limits<double>::quiet_NaN();
  apply_pending();
  settle(result);
  wait_for_gate_in_step();
  result.requests = sum_over_ranks({0, 0, 0, take_requests()}).requests;
  return result;
}

// Waits until all state is on its tier.
void Trainer::settle() {
  const TraceSpan span(row_, span_names::kWaitWrite);
  optimizer_.finish();
  weights_.flush();
  settled_ = count();
}

// The same, at the end of a step, which everything since the last time belongs to.
void Trainer::settle(StepResult& result) {
  const Settled before = settled_;
  settle();
  result.traffic = settled_.traffic;
  result.traffic -= before.traffic;
  result.commit_written_bytes = settled_.commit_written_bytes - before.commit_written_bytes;
}

Trainer::Settled Trainer::count() const {
  using offload::Account;
  const offload::Ledger& ledger = store_.ledger();
  Settled now{ledger.total(Account::pass)};
  if (!deferred()) now.traffic += ledger.total(Account::update);  // or it is the step's before
  if (parts_.storage == nullptr) return now;
  // Copies, and what the store writes of its own.
  now.commit_written_bytes = parts_.storage->traffic().written_bytes;
  for (const Account account : {Account::pass, Account::update, Account::other}) {
    now.commit_written_bytes -= ledger.total(account).bytes(offload::Link::nvme_written);
  }
  return now;
}

void Trainer::run_passes(std::span<const MicroBatch> batches, std::int64_t targets) {
  const int passes = setup_.batch.passes();
  const auto size = static_cast<std::size_t>(setup_.batch.pass_size);
  const float scale = 1.0f / static_cast<float>(targets);
  auto* const loss_sum = reinterpret_cast<double*>(results_.data());
  for (int p = 0; p < passes; ++p) {
    const std::size_t first = std::min(static_cast<std::size_t>(p) * size, batches.size());
    const std::size_t count = std::min(size, batches.size() - first);
    const auto pass = batches.subspan(first, count);
    pass_.forward(pass, loss_sum, pending_updates());
    updates_applied();
    if (p == 0 && !deferred()) wait_for_gate_in_step();
    pass_.backward(pass, {p == 0, p + 1 == passes}, scale);
  }
}

// For updates in backward, which begin within the step.
void Trainer::wait_for_gate_in_step() {
  if (gate_ == nullptr || !gate_->holds_updates()) return;
  const TraceSpan span(row_, span_names::kWaitCommit);
  gate_->before_updates();
  parts_.comm.barrier();
  gate_->updates_may_start();
}

// Called where they may have been.
void Trainer::updates_applied() {
  if (optimizer_.any_pending()) return;
  deferred_update_traffic_ = optimizer_.update_traffic();
  if (gate_ != nullptr) gate_->updates_applied();
}

// Those that one commit answers are taken; the others stay.
std::uint32_t Trainer::take_requests() {
  constexpr std::uint32_t kAnswered = kCommitRequest | kCheckpointTimeDue;
  return parts_.requests == nullptr ? 0 : parts_.requests->fetch_and(~kAnswered);
}

offload::PendingUpdates* Trainer::pending_updates() {
  return deferred() && optimizer_.any_pending() ? &optimizer_ : nullptr;
}

optim::StepSettings Trainer::step_settings(double gradient_scale) const {
  const Options& options = setup_.options;
  optim::StepSettings settings;
  settings.method = options.optimizer == "lion"   ? optim::Method::lion
                    : options.optimizer == "adam" ? optim::Method::adam
                                                  : optim::Method::adamw;
  settings.beta1 = static_cast<float>(options.beta1);
  settings.beta2 = static_cast<float>(options.beta2);
  settings.epsilon = static_cast<float>(options.eps);
  settings.gradient_scale = static_cast<float>(gradient_scale);
  settings.step = progress_.updates + 1;
  settings.seed = options.seed;
  return settings;
}

void Trainer::zero_loss_sum() { compute_->fill_zero(results_.data(), kLossBytes); }

double Trainer::read_loss_sum() {
  compute_->copy(host_results_.data(), results_.data(), kLossBytes);
  store_.ledger().add(offload::Account::pass, offload::Link::from_device, offload::MovedKind::batch,
                      kLossBytes);
  const TraceSpan span(row_, span_names::kWaitCompute);
  compute_->synchronize();
  return *host_results_.as<double>();
}

// Every rank adds the same numbers in rank order, so every rank decides alike.
Trainer::Totals Trainer::sum_over_ranks(const Totals& mine) {
  const TraceSpan span(row_, span_names::kWaitRanks);
  parts_.comm.all_gather_host(std::as_bytes(std::span(&mine, 1)),
                              std::as_writable_bytes(std::span(gathered_)));
  Totals total{};
  for (const Totals& each : gathered_) {
    total.loss_sum += each.loss_sum;
    total.square_sum += each.square_sum;
    total.finite += each.finite;
    total.requests |= each.requests;
  }
  return total;
}

double Trainer::evaluate(const Samples& data, std::int64_t samples) {
  const EvaluationTotals total = engine::evaluate(
      {setup_.batch, pass_, loader_, *compute_, parts_.comm, results_, host_results_}, data,
      samples, pending_updates());
  updates_applied();
  settle();
  if (total.targets == 0) {
    throw_error<TrainingError>(
        "no token is trained in the {} validation sequences of an evaluation, so there is no loss; "
        "use more of them (--eval-batches) or other validation data",
        samples);
  }
  return total.loss();
}

void Trainer::restart_sample() {
  STRATA_CHECK(decode_.has_value(), "samples were not asked for");
  decode_->restart();
}

std::span<const float> Trainer::next_logits(std::span<const std::int32_t> tokens) {
  STRATA_CHECK(decode_.has_value(), "samples were not asked for");
  const std::span<const float> logits = decode_->next_logits(tokens, pending_updates());
  updates_applied();
  settle();
  return logits;
}

void Trainer::apply_pending() {
  if (optimizer_.any_pending()) pass_.gather_all(&optimizer_);
  updates_applied();
}

void Trainer::drain() {
  apply_pending();
  settle();
}

std::vector<float> Trainer::master(int unit) {
  drain();
  return read_master(access_, store_, unit, setup_.topology.rank);
}

}  // namespace strata::engine

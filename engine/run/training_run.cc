#include "engine/run/training_run.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "engine/options/count_text.h"
#include "engine/profile/profile_table.h"
#include "engine/run/run_length.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"

namespace strata::engine {

namespace {

double seconds_since(TrainingRun::Clock::time_point begin) {
  return std::chrono::duration<double>(TrainingRun::Clock::now() - begin).count();
}

}  // namespace

LrSchedule learning_rates(const Options& options, std::int64_t steps) {
  return LrSchedule(parse_lr_shape(options.lr_schedule), options.lr, options.min_lr,
                    parse_warmup(options.warmup, steps), steps);
}

TrainingRun::TrainingRun(const RunSetup& setup, const TrainingData& data, Session& session,
                         Trainer& trainer, Clock::time_point started, RunControl control,
                         RunOutput output)
    : setup_(setup),
      data_(data),
      session_(session),
      trainer_(trainer),
      started_(started),
      control_(control),
      output_(output),
      steps_(step_count(setup, data)),
      first_step_(control.durable == nullptr ? 1 : control.durable->step() + 1),
      schedule_(learning_rates(setup.options, steps_)),
      checkpoints_(setup.options.checkpoint_every.value_or(kDefaultCheckpointInterval),
                   setup.options.export_every, Clock::now()),
      order_(data.train->count(), setup.options.seed),
      bound_(session.bound()),
      flops_(useful_flops(setup)),
      ledger_(setup, data, session.volume(), session.measuring_traffic()) {
  const std::int64_t position = (first_step_ - 1) * setup.batch.global_batch;
  if (output.log != nullptr) tokens_ = tokens_before(*data.train, order_, position);
  summary_.steps = steps_;
  summary_.first_step = first_step_;
  summary_.of_rank_0 = setup.topology.world_size > 1;
  summary_.nvme_held_bytes = setup.plan.total_bytes(offload::Tier::nvme);
  if (control_.durable != nullptr) trainer_.hold_updates_at(*this);
}

RunEnd TrainingRun::run() {
  if (first_step_ > steps_) {
    note(fmt::format(
        "nothing is left to train: the run is at step {} of {}; for more, give --steps N "
        "--allow-change steps",
        first_step_ - 1, steps_));
    control_.stop.run_ends();
    finish_copies();
    require_exported();
    return RunEnd::complete;
  }
  if (data_.validation != nullptr && first_step_ == 1) show_start();
  try {
    for (std::int64_t step = first_step_; step <= steps_; ++step) {
      const std::uint32_t requests = train_step(step);
      if ((requests & kStopRequest) != 0 && step < steps_) {
        stop(step);
        return RunEnd::stopped;
      }
      commit_if_due(step, requests);
    }
    finish();
    require_exported();
  } catch (...) {
    // What the last step did, though its update was not completed.
    if (waiting_ && output_.log != nullptr) output_.log->write(*waiting_);
    throw;
  }
  return RunEnd::complete;
}

void TrainingRun::show_start() {
  summary_.val_loss_first = summary_.val_loss_last = evaluate();
  StepRecord start;
  start.val_loss = summary_.val_loss_first;
  start.bound_s = bound_.bound_s();
  start.device_peak_bytes = session_.device().device_budget().peak_bytes();
  start.host_peak_bytes = session_.device().host_budget().peak_bytes();
  start.nvme_sums = ledger_.update(trainer_.ledger());
  if (output_.progress != nullptr) output_.progress->show(start);
  if (output_.log != nullptr) output_.log->write(start);
}

std::uint32_t TrainingRun::train_step(std::int64_t step) {
  const Clock::time_point begin = Clock::now();
  const double cpu_begin_s = process_cpu_seconds();
  control_.stop.step_begins(step);
  if (setup_.topology.rank == 0 && checkpoints_.is_time(begin)) {
    control_.requests.fetch_or(kCheckpointTimeDue);
  }
  const bool with_update =
      setup_.plan.update == offload::UpdateTime::in_backward || trainer_.update_pending();
  const std::int64_t position = (step - 1) * setup_.batch.global_batch;
  if (output_.profile != nullptr) output_.profile->step_begins();
  const StepResult result = trainer_.step(*data_.train, order_, position, schedule_.at(step));
  if (output_.profile != nullptr) output_.profile->step_ends();
  control_.stop.step_ended();
  log_waiting();
  // The bound is that of a step with an update in it, which a deferred run's first step has not.
  after_step(step, result,
             {seconds_since(begin), process_cpu_seconds() - cpu_begin_s,
              with_update ? bound_s(result.rows) : 0});
  if (output_.profile != nullptr) output_.profile->record(step);
  return result.requests;
}

double TrainingRun::bound_s(const RowCounts& rows) const {
  if (rows.targets == 0) return 0;
  if (rows.computed == setup_.batch.tokens_per_step()) return bound_.bound_s();
  const double share =
      static_cast<double>(rows.computed) / static_cast<double>(setup_.batch.tokens_per_step());
  return session_.bound(share).bound_s();
}

void TrainingRun::after_step(std::int64_t step, const StepResult& result, const StepTimes& times) {
  const std::int64_t sequences = step * setup_.batch.global_batch;
  StepRecord record;
  record.step = step;
  record.epoch = static_cast<double>(sequences) / static_cast<double>(data_.train->count());
  record.loss = result.loss;
  record.lr = schedule_.at(step);
  record.grad_norm = result.grad_norm;
  const auto tokens = static_cast<double>(result.rows.tokens);
  const auto full = static_cast<double>(setup_.batch.tokens_per_step());
  record.tokens = tokens_ += result.rows.tokens;
  record.targets = result.rows.targets;
  record.padding = 1 - tokens / static_cast<double>(result.rows.computed);
  record.tokens_per_s = tokens / times.step_s;
  record.mfu = tokens / full * flops_ / (times.step_s * session_.rates().matmul_peak_flops_per_s());
  record.step_s = times.step_s;
  record.cpu_s = times.cpu_s;
  record.bound_s = times.bound_s;
  record.device_peak_bytes = session_.device().device_budget().peak_bytes();
  record.host_peak_bytes = session_.device().host_budget().peak_bytes();
  record.traffic = result.traffic;
  record.commit_written_bytes = result.commit_written_bytes;
  record.skipped = result.skipped;
  record.committed_step = summary_.committed_step;
  summarise(step, result, times);
  // Whoever wants the run to stop does not want to wait for these.
  const bool stops = (result.requests & kStopRequest) != 0 && step < steps_;
  if (!stops && evaluates(setup_, data_, step))
    record.val_loss = summary_.val_loss_last = evaluate();
  record.nvme_sums = ledger_.update(trainer_.ledger());
  if (output_.progress != nullptr) output_.progress->show(record);
  waiting_ = record;
  if (!trainer_.update_pending()) log_waiting();
  if (output_.folder != nullptr) output_.folder->keep();
  if (control_.durable != nullptr) control_.durable->keep();
  control_.stop.kept();
  const std::int64_t every = setup_.options.sample_every;
  if (!stops && every > 0 && step % every == 0 && step != steps_) sample(step);
}

void TrainingRun::summarise(std::int64_t step, const StepResult& result, const StepTimes& times) {
  if (step > first_step_) {
    summary_.trained_s += times.step_s;
    summary_.bounded_s += times.bound_s > 0 ? times.step_s : 0;
    summary_.bounds_s += times.bound_s;
  }
  summary_.skipped += result.skipped ? 1 : 0;
  if (result.rows.targets == 0) {
    ++summary_.untrained;
    return;
  }
  if (!summary_.loss_first) summary_.loss_first = result.loss;
  summary_.loss_last = result.loss;
}

// What a run goes on with after a step.
store::Snapshot TrainingRun::snapshot(std::int64_t step) const {
  store::Snapshot snapshot;
  snapshot.data_position = step * setup_.batch.global_batch;
  snapshot.schedule_step = step;
  snapshot.optimizer_step = trainer_.progress().updates;
  snapshot.skipped_in_a_row = trainer_.progress().skipped_in_a_row;
  return snapshot;
}

void TrainingRun::commit_if_due(std::int64_t step, std::uint32_t requests) {
  if (control_.durable == nullptr || step == steps_) return;  // the end commits
  bool is_held = false;
  if (control_.copies != nullptr) {
    if (const auto text = control_.copies->after_step(committer(), requests)) note(*text);
    is_held = control_.copies->holds_commits(requests);
  }
  if (!checkpoints_.is_due(step, requests)) return;
  if (is_held && checkpoints_.cannot_wait(step)) {
    catch_up_copies();
  } else if (is_held) {
    note(fmt::format("the commit of step {} waits for the copy of step {}", step,
                     control_.copies->step()));
    return;
  }
  checkpoints_.committed(Clock::now());
  committer().want(step, snapshot(step));
  if (!trainer_.update_pending()) committer().updates_applied();
}

void TrainingRun::updates_applied() {
  log_waiting();
  committer().updates_applied();
}

void TrainingRun::updates_may_start() {
  committer().updates_may_start();
  const auto committed = committer().committed_step();
  if (!committed || committed == summary_.committed_step) return;
  summary_.committed_step = committed;
  control_.stop.committed(*committed);
}

double TrainingRun::evaluate() {
  return trainer_.evaluate(*data_.validation, evaluation_sequences(setup_, data_));
}

void TrainingRun::sample(std::int64_t step) {
  note(fmt::format("sample: {}", control_.samples->draw(trainer_, step)));
}

void TrainingRun::note(const std::string& text) {
  if (output_.progress != nullptr) output_.progress->note(text);
}

// The line of a step is written once its update is, with the bytes that took.
void TrainingRun::log_waiting() {
  if (!waiting_) return;
  if (!waiting_->skipped && setup_.plan.update == offload::UpdateTime::deferred) {
    waiting_->traffic += trainer_.update_traffic();
  }
  ledger_.update(trainer_.ledger());
  if (output_.log != nullptr) output_.log->write(*waiting_);
  waiting_.reset();
}

// At the end of a step, because somebody wants it.
void TrainingRun::stop(std::int64_t step) {
  control_.stop.run_ends();
  control_.durable->commit_now(trainer_, step, snapshot(step));
  if (output_.profile != nullptr) output_.profile->finish();
  note(control_.stop.stopped_text(step));
}

void TrainingRun::catch_up_copies() {
  for (const std::string& text : control_.copies->catch_up(committer())) note(text);
}

void TrainingRun::finish_copies() {
  if (control_.copies == nullptr) return;
  control_.stop.copies_begin();
  for (const std::string& text : control_.copies->finish(committer())) note(text);
}

// Last, because the run is complete all the same.
void TrainingRun::require_exported() {
  if (control_.copies != nullptr) control_.copies->require_exported();
}

void TrainingRun::finish() {
  control_.stop.run_ends();
  trainer_.drain();
  log_waiting();
  if (control_.durable != nullptr) {
    const bool wants_snapshot =
        control_.copies != nullptr && control_.copies->wants_snapshot(committer());
    if (wants_snapshot) catch_up_copies();
    control_.durable->commit_now(trainer_, steps_, snapshot(steps_));
    summary_.committed_step = committer().committed_step();
    finish_copies();
  }
  if (control_.samples != nullptr) sample(steps_);
  ledger_.update(trainer_.ledger());
  if (output_.profile != nullptr) output_.profile->finish();
  if (output_.progress == nullptr) return;
  if (setup_.options.profile) {
    const KeptSteps& steps = output_.profile->steps();
    output_.progress->result(setup_.options.json ? profile_summary_json(steps)
                                                 : profile_text(steps));
  }
  summary_.wall_s = seconds_since(started_);
  summary_.nvme = ledger_.total();
  const Budget& device = session_.device().device_budget();
  const Budget& host = session_.device().host_budget();
  output_.progress->result(
      setup_.options.json
          ? summary_json(summary_, device, host, bound_, ledger_.summary_json(summary_.wall_s))
          : summary_text(summary_, device, host, bound_, ledger_.summary_text(summary_.wall_s)));
}

}  // namespace strata::engine

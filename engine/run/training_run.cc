#include "engine/run/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/options/count_text.h"
#include "engine/options/json_text.h"
#include "engine/run/run_length.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"

namespace strata::engine {

namespace {

double seconds_since(TrainingRun::Clock::time_point begin) {
  return std::chrono::duration<double>(TrainingRun::Clock::now() - begin).count();
}

// Without the sign of a NaN, which says nothing.
std::string loss_text(double loss) {
  return std::isnan(loss) ? "nan" : fmt::format("{:.4f}", loss);
}

}  // namespace

LrSchedule learning_rates(const Options& options, std::int64_t steps) {
  return LrSchedule(parse_lr_shape(options.lr_schedule), options.lr, options.min_lr,
                    parse_warmup(options.warmup, steps), steps);
}

TrainingRun::TrainingRun(const RunSetup& setup, const TrainingData& data, Session& session,
                         Trainer& trainer, Clock::time_point started, RunOutput output)
    : setup_(setup),
      data_(data),
      session_(session),
      trainer_(trainer),
      started_(started),
      output_(output),
      steps_(step_count(setup, data)),
      schedule_(learning_rates(setup.options, steps_)),
      order_(data.train_samples, setup.options.seed),
      bound_(step_bound(setup, session.rates())),
      sampler_(trainer, setup.model.vocabulary, setup.batch.seq_len, setup.options.seed),
      ledger_(setup, data, session.volume()) {}

void TrainingRun::run() {
  if (data_.validation != nullptr) show_start();
  try {
    for (std::int64_t step = 1; step <= steps_; ++step) train_step(step);
    finish();
  } catch (...) {
    // What the last step did, though its update was not completed.
    if (waiting_ && output_.log != nullptr) output_.log->write(*waiting_);
    throw;
  }
}

void TrainingRun::show_start() {
  first_val_loss_ = last_val_loss_ = evaluate();
  StepRecord start;
  start.val_loss = first_val_loss_;
  start.bound_s = bound_.seconds();
  start.device_peak_bytes = session_.device().device_budget().peak_bytes();
  start.host_peak_bytes = session_.device().host_budget().peak_bytes();
  start.nvme_sums = ledger_.update(trainer_.state_traffic());
  if (output_.progress != nullptr) output_.progress->show(start);
  if (output_.log != nullptr) output_.log->write(start);
}

void TrainingRun::train_step(std::int64_t step) {
  const Clock::time_point begin = Clock::now();
  const bool with_update =
      setup_.plan.update == offload::UpdateTime::in_backward || trainer_.update_pending();
  const std::int64_t position = (step - 1) * setup_.batch.global_batch;
  const StepResult result = trainer_.step(*data_.train, order_, position, schedule_.at(step));
  log_waiting();
  // The bound is that of a step with an update in it, which a deferred run's first step has not.
  after_step(step, result, seconds_since(begin), with_update ? bound_.seconds() : 0);
}

void TrainingRun::after_step(std::int64_t step, const StepResult& result, double step_s,
                             double bound_s) {
  const std::int64_t sequences = step * setup_.batch.global_batch;
  StepRecord record;
  record.step = step;
  record.epoch = static_cast<double>(sequences) / static_cast<double>(data_.train_samples);
  record.loss = result.loss;
  record.lr = schedule_.at(step);
  record.grad_norm = result.grad_norm;
  record.tokens = sequences * setup_.batch.seq_len;
  record.tokens_per_s = static_cast<double>(setup_.batch.tokens_per_step()) / step_s;
  record.mfu = bound_.flops / (step_s * session_.rates().matmul_peak_flops_per_s());
  record.step_s = step_s;
  record.bound_s = bound_s;
  record.device_peak_bytes = session_.device().device_budget().peak_bytes();
  record.host_peak_bytes = session_.device().host_budget().peak_bytes();
  record.nvme_read_bytes = result.traffic.read_bytes;
  record.nvme_written_bytes = result.traffic.written_bytes;
  record.skipped = result.skipped;
  if (step == 1) first_loss_ = result.loss;
  if (step > 1) trained_s_ += step_s;
  last_loss_ = result.loss;
  skipped_ += result.skipped ? 1 : 0;
  if (evaluates(setup_, data_, step)) record.val_loss = last_val_loss_ = evaluate();
  record.nvme_sums = ledger_.update(trainer_.state_traffic());
  if (output_.progress != nullptr) output_.progress->show(record);
  waiting_ = record;
  if (!trainer_.update_pending()) log_waiting();
  if (output_.folder != nullptr) output_.folder->keep();
  const std::int64_t every = setup_.options.sample_every;
  if (every > 0 && step % every == 0 && step != steps_) sample();
}

double TrainingRun::evaluate() {
  return trainer_.evaluate(*data_.validation, evaluation_sequences(setup_, data_));
}

void TrainingRun::sample() {
  const std::string text =
      sampler_.draw(setup_.options.sample_prompt, setup_.options.sample_tokens);
  if (output_.progress != nullptr) output_.progress->note(fmt::format("sample: {}", text));
}

// The line of a step is written once its update is, with the bytes that took.
void TrainingRun::log_waiting() {
  if (!waiting_) return;
  const io::StorageTraffic update = trainer_.update_traffic();
  if (!waiting_->skipped && setup_.plan.update == offload::UpdateTime::deferred) {
    waiting_->nvme_read_bytes += update.read_bytes;
    waiting_->nvme_written_bytes += update.written_bytes;
  }
  ledger_.update(trainer_.state_traffic());
  if (output_.log != nullptr) output_.log->write(*waiting_);
  waiting_.reset();
}

void TrainingRun::finish() {
  trainer_.drain();
  log_waiting();
  if (setup_.options.sample_tokens > 0) sample();
  ledger_.update(trainer_.state_traffic());
  if (output_.progress != nullptr) {
    output_.progress->result(setup_.options.json ? summary_json() : summary_text());
  }
}

io::StorageTraffic TrainingRun::nvme_traffic() const {
  return session_.volume() != nullptr ? session_.volume()->traffic() : io::StorageTraffic{};
}

// 0 where no step but the first was trained.
double TrainingRun::mean_step_s() const {
  return steps_ > 1 ? trained_s_ / static_cast<double>(steps_ - 1) : 0.0;
}

std::string TrainingRun::summary_json() const {
  Budget& device = session_.device().device_budget();
  Budget& host = session_.device().host_budget();
  const io::StorageTraffic nvme = nvme_traffic();
  const auto number = [](std::optional<double> x) {
    return x ? nlohmann::json(*x) : nlohmann::json();
  };
  return json_text({{"steps", steps_},
                    {"skipped_steps", skipped_},
                    {"loss_first", first_loss_},
                    {"loss_last", last_loss_},
                    {"val_loss_first", number(first_val_loss_)},
                    {"val_loss_last", number(last_val_loss_)},
                    {"device_peak_bytes", device.peak_bytes()},
                    {"device_budget_bytes", device.capacity_bytes()},
                    {"host_peak_bytes", host.peak_bytes()},
                    {"host_budget_bytes", host.capacity_bytes()},
                    {"resident_peak_bytes", peak_resident_bytes()},
                    {"nvme_read_bytes", nvme.read_bytes},
                    {"nvme_written_bytes", nvme.written_bytes},
                    {"nvme", ledger_.summary_json(seconds_since(started_))},
                    {"mean_step_s", mean_step_s()},
                    {"bound_s", bound_.seconds()},
                    {"wall_s", seconds_since(started_)}},
                   -1);
}

std::string TrainingRun::summary_text() const {
  Budget& device = session_.device().device_budget();
  Budget& host = session_.device().host_budget();
  const io::StorageTraffic nvme = nvme_traffic();
  const char* const whose = setup_.topology.world_size > 1 ? " (rank 0)" : "";
  std::string losses = fmt::format("{} -> {}", loss_text(first_loss_), loss_text(last_loss_));
  if (first_val_loss_) {
    losses += fmt::format(", validation {} -> {}", loss_text(*first_val_loss_),
                          loss_text(*last_val_loss_));
  }
  losses += " nats per token";
  if (skipped_ > 0) losses += fmt::format("; {} skipped", count_text(skipped_, "step"));
  std::string step = fmt::format("bound {:.1f} ms", bound_.seconds() * 1e3);
  if (mean_step_s() > 0) {
    step = fmt::format("{:.1f} ms on average, {:.0f}% of bound ({:.1f} ms, set by {})",
                       mean_step_s() * 1e3, 100 * bound_.seconds() / mean_step_s(),
                       bound_.seconds() * 1e3, bound_.limit());
  }
  return fmt::format(
      "\nsummary\n"
      "  loss             {}\n"
      "  device memory    {} peak of {} budget{}\n"
      "  host memory      {} peak of {} budget{}; process {} resident at most\n"
      "  NVMe             {} held; {} read and {} written, start and evaluation included{}\n"
      "{}"
      "  step             {}\n"
      "  time             {:.0f} s from the start for {}, evaluation and samples",
      losses, format_bytes(device.peak_bytes()), format_bytes(device.capacity_bytes()), whose,
      format_bytes(host.peak_bytes()), format_bytes(host.capacity_bytes()), whose,
      format_bytes(peak_resident_bytes()),
      format_bytes(setup_.plan.total_bytes(offload::Tier::nvme)), format_bytes(nvme.read_bytes),
      format_bytes(nvme.written_bytes), whose, ledger_.summary_text(seconds_since(started_)), step,
      seconds_since(started_), count_text(steps_, "step"));
}

}  // namespace strata::engine

// TrainingRun: the loop over steps as a user sees it: learning rate, evaluation, samples, progress,
// log, summary. All ranks run it; rank 0 alone prints and writes.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/data/training_data.h"
#include "engine/plan/bound.h"
#include "engine/plan/run_setup.h"
#include "engine/run/nvme_ledger.h"
#include "engine/run/progress.h"
#include "engine/run/run_folder.h"
#include "engine/run/run_log.h"
#include "engine/run/session.h"
#include "engine/run/step_record.h"
#include "engine/step/lr_schedule.h"
#include "engine/step/sampler.h"
#include "engine/step/trainer.h"

namespace strata::engine {

// What rank 0 writes to; null members: nothing, as on other ranks.
struct RunOutput {
  Progress* progress = nullptr;
  RunLog* log = nullptr;
  RunFolder* folder = nullptr;
};

// The learning rate of each of `steps` steps. Throws ConfigError when --warmup is longer than that.
LrSchedule learning_rates(const Options& options, std::int64_t steps);

class TrainingRun {
 public:
  using Clock = std::chrono::steady_clock;

  // `started`: when the program did, for the summary.
  TrainingRun(const RunSetup& setup, const TrainingData& data, Session& session, Trainer& trainer,
              Clock::time_point started, RunOutput output);

  void run();

  // One of run()'s steps, counted from 1, for whoever wants to look between them.
  void train_step(std::int64_t step);

 private:
  void after_step(std::int64_t step, const StepResult& result, double step_s, double bound_s);
  void show_start();
  double evaluate();
  void sample();
  void log_waiting();
  void finish();
  io::StorageTraffic nvme_traffic() const;
  double mean_step_s() const;
  std::string summary_text() const;
  std::string summary_json() const;

  const RunSetup& setup_;
  const TrainingData& data_;
  Session& session_;
  Trainer& trainer_;
  Clock::time_point started_;
  RunOutput output_;
  std::int64_t steps_;
  LrSchedule schedule_;
  SampleOrder order_;
  StepBound bound_;
  Sampler sampler_;
  NvmeLedger ledger_;
  std::optional<StepRecord> waiting_;  // its update is not complete yet
  std::optional<double> first_val_loss_;
  std::optional<double> last_val_loss_;
  double first_loss_ = 0;
  double last_loss_ = 0;
  double trained_s_ = 0;  // without the first step, which warms up
  std::int64_t skipped_ = 0;
};

}  // namespace strata::engine

// TrainingRun: the loop over steps as a user sees it: learning rate, evaluation, samples, commits,
// progress, log, summary. All ranks run it; rank 0 alone prints and writes.
//
// Thread contract: one thread; run() is collective.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/cost/step_cost.h"
#include "engine/data/training_data.h"
#include "engine/plan/run_setup.h"
#include "engine/run/checkpoint_schedule.h"
#include "engine/run/durable_run.h"
#include "engine/run/nvme_ledger.h"
#include "engine/run/portable_copies.h"
#include "engine/run/progress.h"
#include "engine/run/run_folder.h"
#include "engine/run/run_log.h"
#include "engine/run/run_profile.h"
#include "engine/run/run_samples.h"
#include "engine/run/run_summary.h"
#include "engine/run/session.h"
#include "engine/run/step_record.h"
#include "engine/run/stop_watch.h"
#include "engine/step/lr_schedule.h"
#include "engine/step/trainer.h"
#include "engine/step/update_gate.h"

namespace strata::engine {

// What rank 0 writes to; null members: nothing, as on other ranks.
struct RunOutput {
  Progress* progress = nullptr;
  RunLog* log = nullptr;
  RunFolder* folder = nullptr;
  RunProfile* profile = nullptr;
};

// What acts on a run between its steps.
struct RunControl {
  StopWatch& stop;
  StepRequests& requests;  // of this rank
  DurableRun* durable;     // null: nothing outlives the run
  PortableCopies* copies;  // null: nobody wants any
  RunSamples* samples;     // null: nobody wants any
};

enum class RunEnd : std::uint8_t { complete, stopped };

// The learning rate of each of `steps` steps. Throws ConfigError when --warmup is longer than that.
LrSchedule learning_rates(const Options& options, std::int64_t steps);

class TrainingRun final : private UpdateGate {
 public:
  using Clock = std::chrono::steady_clock;

  // `started`: when the program did, for the summary.
  TrainingRun(const RunSetup& setup, const TrainingData& data, Session& session, Trainer& trainer,
              Clock::time_point started, RunControl control, RunOutput output);

  // The steps that are left.
  RunEnd run();

 private:
  struct StepTimes {
    double step_s;
    double cpu_s;    // processor time of all threads
    double bound_s;  // 0: not known
  };

  // The log has every step of a commit, so the line of a step goes before it.
  void updates_applied() override;
  bool holds_updates() const override { return committer().holds_updates(); }
  void before_updates() override { committer().before_updates(); }
  void updates_may_start() override;
  Committer& committer() const { return control_.durable->committer(); }

  // What all ranks are asked.
  std::uint32_t train_step(std::int64_t step);
  void after_step(std::int64_t step, const StepResult& result, const StepTimes& times);
  double bound_s(const RowCounts& rows) const;
  void summarise(std::int64_t step, const StepResult& result, const StepTimes& times);
  void commit_if_due(std::int64_t step, std::uint32_t requests);
  store::Snapshot snapshot(std::int64_t step) const;
  void show_start();
  double evaluate();
  void sample(std::int64_t step);
  void log_waiting();
  void stop(std::int64_t step);
  void finish();
  void catch_up_copies();
  void finish_copies();
  void require_exported();
  void note(const std::string& text);

  const RunSetup& setup_;
  const TrainingData& data_;
  Session& session_;
  Trainer& trainer_;
  Clock::time_point started_;
  RunControl control_;
  RunOutput output_;
  std::int64_t steps_;
  std::int64_t first_step_;
  std::int64_t tokens_ = 0;  // since the start of the run; counted where there is a log
  LrSchedule schedule_;
  CheckpointSchedule checkpoints_;
  SampleOrder order_;
  StepCost bound_;  // of a step with full sequences and an update
  double flops_;    // useful ones of such a step
  NvmeLedger ledger_;
  std::optional<StepRecord> waiting_;  // its update is not complete yet
  RunSummary summary_;
};

}  // namespace strata::engine

#include "engine/run/train.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "engine/checkpoint/store_pointer.h"
#include "engine/data/training_data.h"
#include "engine/options/count_text.h"
#include "engine/options/json_text.h"
#include "engine/options/option_help.h"
#include "engine/plan/plan_report.h"
#include "engine/plan/run_setup.h"
#include "engine/run/durable_run.h"
#include "engine/run/error_report.h"
#include "engine/run/log_cut.h"
#include "engine/run/nvme_ledger.h"
#include "engine/run/portable_copies.h"
#include "engine/run/pretrained.h"
#include "engine/run/progress.h"
#include "engine/run/run_folder.h"
#include "engine/run/run_length.h"
#include "engine/run/run_log.h"
#include "engine/run/session.h"
#include "engine/run/stop_watch.h"
#include "engine/run/storage_check.h"
#include "engine/run/text_file.h"
#include "engine/run/training_run.h"
#include "engine/step/agreement.h"
#include "engine/step/trainer.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"
#include "models/tokenizer_file.h"

namespace strata::engine {

namespace {

// Everything that can be refused, found before anything is created.
struct Prepared {
  RunSetup setup;
  TrainingData data;
  std::string tokenizer_warning;  // "": checked, or there is none
  NvmeSpace nvme;
  std::unique_ptr<HfFiller> pretrained;  // null: random weights, or a run that goes on
};

NvmeSpace check_storage(const RunSetup& setup) {
  NvmeSpace space = check_nvme_space(setup);
  if (space.needed_bytes == 0 || !space.directories.empty()) return space;
  throw_error<ConfigError>(
      "the plan keeps {} on NVMe, but no directory is given for it; use --nvme DIR or --run DIR",
      format_bytes(space.needed_bytes));
}

// Whether the run of this folder has a store.
bool goes_on(const Options& options) {
  return options.resume &&
         std::filesystem::exists(std::filesystem::path(options.run) / kStorePointerFile);
}

std::string trace_path(const Options& options, const comm::Communicator& comm) {
  if (comm.world_size() == 1) return options.trace;
  return fmt::format("{}.{}", options.trace, comm.rank());
}

void check_outputs(const Options& options, const comm::Communicator& comm) {
  if (!options.trace.empty()) check_writable(trace_path(options, comm));
  if (comm.rank() != 0) return;
  if (!options.log.empty()) check_writable(options.log);
  if (!options.run.empty()) check_run_folder(options.run, folder_use(options));
  check_portable_outputs(options);
  if (options.resume_step && !goes_on(options)) {
    throw_error<ConfigError>(
        "--resume-step {}: the run in {} has not begun, and has no commit to go on from",
        *options.resume_step, options.run);
  }
}

Prepared prepare(const Options& options, const comm::Communicator& comm) {
  if (!goes_on(options)) check_weights_exist(options);
  Prepared prepared;
  prepared.setup = make_run_setup(options, comm.topology(), comm.staging_bytes());
  prepared.data =
      open_training_data(options, prepared.setup.model.vocabulary, prepared.setup.batch.seq_len);
  prepared.tokenizer_warning = check_tokenizer(
      prepared.data, read_model_files(prepared.setup.source.folder)[models::kTokenizerFileName]);
  learning_rates(options, step_count(prepared.setup, prepared.data));  // refuses a long --warmup
  // One that goes on has its space, or finds out what it needs when it has seen its store.
  if (!goes_on(options)) {
    prepared.nvme = check_storage(prepared.setup);
    prepared.pretrained = open_pretrained(prepared.setup);
  }
  check_outputs(options, comm);
  return prepared;
}

// What has to be the same on every rank.
std::vector<SharedSetting> shared_settings(const Options& options, const TrainingData& data) {
  std::vector<SharedSetting> settings = shared_options(options);
  settings.push_back({"number of sequences in its data",
                      fmt::format("{} {}", data.train->count(),
                                  data.validation == nullptr ? 0 : data.validation->count())});
  return settings;
}

// "label      line\n", further lines below the first.
std::string labelled(std::string_view label, std::string_view lines) {
  std::string text;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    text += fmt::format("{:<11}{}\n", text.empty() ? label : "", line);
  }
  return text;
}

// What outlives the run, and what it goes on from.
std::string durable_text(const RunSetup& setup, const DurableRun* durable) {
  if (durable == nullptr) return "";
  std::string text;
  if (const std::string origin = durable->origin_text(); !origin.empty()) {
    text = fmt::format("goes on from {}\n", origin);
  }
  if (setup.plan.durability == offload::Durability::clean_mark) {
    return text +
           "no checkpoints (--checkpoint-every 0): only a run that stops between steps goes on";
  }
  const CheckpointInterval every =
      setup.options.checkpoint_every.value_or(kDefaultCheckpointInterval);
  return text + fmt::format("a checkpoint every {} and at the end, in {}",
                            every.steps > 0 ? count_text(every.steps, "step")
                                            : fmt::format("{} s", every.seconds),
                            setup.options.run);
}

void print_start(const Prepared& prepared, Session& session, const std::string& binding,
                 const DurableRun* durable) {
  const RunSetup& setup = prepared.setup;
  const TrainingData& data = prepared.data;
  std::string text;
  if (durable == nullptr || durable->origin_text().empty()) {
    text = labelled("weights", weights_text(setup, prepared.pretrained.get()));
  }
  text += run_description(setup);
  text += labelled("data", data.description());
  text += labelled("tokenizer", prepared.tokenizer_warning);
  text += labelled("device", fmt::format("{}, {}; {}", session.device().description(),
                                         name_of(setup.isa), ops::matmul_library()));
  if (setup.topology.world_size > 1) {
    text += labelled("ranks", fmt::format("{} on {}, {} each", setup.topology.world_size,
                                          count_text(setup.topology.hosts, "host"),
                                          count_text(setup.threads, "thread")));
  }
  text += labelled("binding", binding);
  text += labelled("writes", NvmeLedger(setup, data, session.volume()).forecast_text());
  text += labelled("left over", left_stores_text(prepared.nvme.directories));
  text += labelled("durable", durable_text(setup, durable));
  text += labelled("options", options_summary(setup.options));
  fmt::print("{}\n{}\n", text, plan_table(setup));
  std::fflush(stdout);
}

// Once the buffers are registered with it, or not.
void print_storage(Session& session) {
  if (session.volume() == nullptr) return;
  fmt::print("{}{}\n", labelled("storage", session.volume()->description()),
             labelled("I/O", session.engine_choice().reason));
  std::fflush(stdout);
}

std::vector<std::string> log_paths(const Options& options, const RunFolder* folder) {
  std::vector<std::string> paths;
  if (!options.log.empty()) paths.push_back(options.log);
  if (folder != nullptr) paths.push_back(folder->log_path());
  return paths;
}

// What a run does that others may see, and what it learns of them.
struct RunFrame {
  std::optional<RunFolder> folder;  // rank 0's
  std::optional<RunLog> log;
  std::optional<Progress> progress;

  RunOutput output() {
    return {progress ? &*progress : nullptr, log ? &*log : nullptr, folder ? &*folder : nullptr};
  }
};

StopRules stop_rules(const RunSetup& setup) {
  StopRules rules{setup.plan.durability,
                  setup.options.run,
                  std::chrono::duration<double>(setup.options.stop_within),
                  {}};
  if (setup.topology.rank == 0) rules.say = print_notice;
  return rules;
}

// What the folder says of the run, as it is from now on.
void record_run(const Prepared& prepared, Session& session, RunFolder& folder) {
  const RunSetup& setup = prepared.setup;
  folder.write_options(setup.options);
  folder.write_model(read_model_files(setup.source.folder));
  folder.write_plan(json_text(plan_json(setup)));
  folder.write_arithmetic(json_text(arithmetic_json(setup, session.rates())));
}

// What rank 0 shows once the machine is set up, and records of a run that begins: its store is
// never without.
void show_beginning(const Prepared& prepared, Session& session, const std::string& binding,
                    const DurableRun* durable, RunFrame& frame) {
  const RunSetup& setup = prepared.setup;
  const Options& options = setup.options;
  if (frame.folder && !frame.folder->has_run()) record_run(prepared, session, *frame.folder);
  if (!options.json) print_start(prepared, session, binding, durable);
  frame.progress.emplace(
      STDOUT_FILENO, progress_style(STDOUT_FILENO, options.json, setup.topology.world_size),
      step_count(setup, prepared.data), setup.plan.total_bytes(offload::Tier::nvme));
  if (!options.json) return;
  const std::string left = left_stores_text(prepared.nvme.directories);
  for (const std::string& text : {prepared.tokenizer_warning, left}) {
    if (!text.empty()) frame.progress->note(text);
  }
}

// The validation loss of the step that a run goes on from, where that was due and is not in the
// log: whoever stopped the run did not want to wait. Collective.
std::optional<double> missing_validation(const Prepared& prepared, const DurableRun& durable,
                                         Trainer& trainer, comm::Communicator& comm,
                                         const RunFrame& frame) {
  const RunSetup& setup = prepared.setup;
  const std::int64_t step = durable.step();
  if (step == 0 || !evaluates(setup, prepared.data, step)) return std::nullopt;
  auto missing = static_cast<std::uint8_t>(agree(
      comm, [&] { return frame.folder && lacks_validation(frame.folder->log_path(), step); }));
  comm.broadcast(std::as_writable_bytes(std::span(&missing, 1)), 0);
  if (missing == 0) return std::nullopt;
  return trainer.evaluate(*prepared.data.validation, evaluation_sequences(setup, prepared.data));
}

// Once nothing refuses the run any more: a run that goes on has verified its state and forgotten
// every other commit. Until here its folder is as it was found.
void open_log(const Prepared& prepared, Session& session, const DurableRun* durable,
              std::optional<double> validation_loss, RunFrame& frame) {
  if (frame.folder) {
    if (frame.folder->has_run()) record_run(prepared, session, *frame.folder);
    const bool begins = durable->step() == 0;  // and evaluates before its first step
    frame.folder->cut_log(begins ? -1 : durable->step(), validation_loss);
  }
  frame.log.emplace(log_paths(prepared.setup.options, frame.folder ? &*frame.folder : nullptr));
}

// Ends a run's commits before the trainer that was made before it, also when a step has failed.
struct CommitsEnd {
  DurableRun* durable;  // may be null
  ~CommitsEnd() {
    if (durable != nullptr) durable->end();
  }
};

RunEnd train(const Prepared& prepared, Session& session, Ranks& ranks, DurableRun* durable,
             StopWatch& stop, StepRequests& requests, RunFrame& frame,
             std::chrono::steady_clock::time_point started) {
  TrainerParts parts = session.trainer_parts();
  parts.requests = &requests;
  if (durable != nullptr) parts.filler = durable->filler(parts.workers);
  if (parts.filler == nullptr) parts.filler = prepared.pretrained.get();
  Trainer trainer(prepared.setup, parts);
  const CommitsEnd commits_end{durable};
  if (durable != nullptr) {
    durable->begin(trainer, session, [&] {
      if (frame.log) frame.log->sync();
    });
  }
  std::optional<double> validation_loss;
  if (durable != nullptr) {
    validation_loss = missing_validation(prepared, *durable, trainer, ranks.comm, frame);
  }
  agree(ranks.comm, [&] {
    if (ranks.comm.rank() == 0) open_log(prepared, session, durable, validation_loss, frame);
  });
  std::optional<PortableCopies> copies;
  if (portable_memory_bytes(prepared.setup) > 0) {
    copies.emplace(prepared.setup, session.rates(), session.store(), session.device(), ranks.comm,
                   requests, durable->step());
  }
  if (frame.progress && !prepared.setup.options.json) print_storage(session);
  return TrainingRun(prepared.setup, prepared.data, session, trainer, started,
                     {stop, requests, durable, copies ? &*copies : nullptr}, frame.output())
      .run();
}

}  // namespace

int run_train(const Options& options, Ranks& ranks, std::chrono::steady_clock::time_point started) {
  comm::Communicator& comm = ranks.comm;
  Prepared prepared = agree(comm, [&] { return prepare(options, comm); });
  require_same(comm, shared_settings(options, prepared.data));
  const RunSetup& setup = prepared.setup;
  RunFrame frame;
  agree(comm, [&] {  // afterwards the folder exists for every rank
    if (comm.rank() != 0 || options.run.empty()) return;
    frame.folder.emplace(options.run, folder_use(options));
  });
  StepRequests requests{0};
  StopWatch stop(stop_rules(setup), requests, ranks.failure);
  // A rank that shares its host keeps to its cores, so that its memory is next to them.
  if (comm.topology().local_world_size > 1) stay_on(setup.cpus);
  spread_memory();
  std::optional<DurableRun> durable;
  if (!options.run.empty()) durable.emplace(setup, comm, ranks.failure);
  if (durable && durable->has_store()) stop.kept();
  Session session(setup, comm, ranks.failure, [&](const io::EngineChoice& engine, Tracer* tracer) {
    return durable ? durable->open_store(engine, tracer)
                   : make_new_store(setup, comm, engine, tracer);
  });
  DurableRun* const its_durable = durable ? &*durable : nullptr;
  if (durable && durable->goes_on()) stop.committed(durable->step());
  agree(comm, [&] {
    // A store without a commit is one to begin with after all.
    const bool begins = !durable || durable->origin_text().empty();
    if (begins && !prepared.pretrained) prepared.pretrained = open_pretrained(setup);
    if (comm.rank() == 0) show_beginning(prepared, session, ranks.binding, its_durable, frame);
  });
  // Now, because the session ends with a file deleted: on a drive that hangs, never.
  const auto end_early = [&] {
    frame.progress.reset();
    if (durable) durable->give_up(session);
  };
  const auto fail = [&](const std::exception& error) {
    end_early();
    report(error, comm.world_size() > 1 ? comm.rank() : -1);
    throw ReportedFailure(error, exit_code_of(error));
  };
  RunEnd end = RunEnd::complete;
  try {
    end = train(prepared, session, ranks, its_durable, stop, requests, frame, started);
  } catch (const AgreedFailure&) {  // rank 0 speaks for all
    end_early();
    throw;
  } catch (const Interrupted& error) {  // whose commit may have become durable since
    fail(Interrupted(stop.drop_text(), error.exit_code()));
  } catch (const std::exception& error) {
    fail(error);
  }
  if (session.tracer() != nullptr) session.tracer()->write(trace_path(options, comm), comm.rank());
  comm.barrier();
  return end == RunEnd::complete ? 0 : kExitResumable;
}

}  // namespace strata::engine

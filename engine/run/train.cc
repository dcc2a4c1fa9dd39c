#include "engine/run/train.h"

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "engine/checkpoint/store_pointer.h"
#include "engine/data/recorded_data.h"
#include "engine/data/training_data.h"
#include "engine/options/json_text.h"
#include "engine/plan/plan_report.h"
#include "engine/plan/run_setup.h"
#include "engine/run/auto_memory.h"
#include "engine/run/durable_run.h"
#include "engine/run/error_report.h"
#include "engine/run/log_cut.h"
#include "engine/run/portable_copies.h"
#include "engine/run/pretrained.h"
#include "engine/run/progress.h"
#include "engine/run/run_folder.h"
#include "engine/run/run_length.h"
#include "engine/run/run_log.h"
#include "engine/run/run_profile.h"
#include "engine/run/run_samples.h"
#include "engine/run/session.h"
#include "engine/run/start_report.h"
#include "engine/run/stop_watch.h"
#include "engine/run/storage_check.h"
#include "engine/run/text_file.h"
#include "engine/run/tokenizer_check.h"
#include "engine/run/training_run.h"
#include "engine/step/agreement.h"
#include "engine/step/trainer.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"

namespace strata::engine {

namespace {

// Everything that can be refused, found before anything is created.
struct Prepared {
  RunSetup setup;
  TrainingData data;
  std::string tokenizer_warning;  // "": checked, or there is none
  NvmeSpace nvme;
  std::unique_ptr<HfFiller> pretrained;  // null: random weights, or a run that goes on
  std::unique_ptr<RunSamples> samples;   // null: nobody wants any
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

Prepared prepare(const Options& options, const Ranks& ranks) {
  const comm::Communicator& comm = ranks.comm;
  if (!goes_on(options)) check_weights_exist(options);
  Prepared prepared;
  prepared.setup = make_run_setup(options, comm.topology(), comm.staging_bytes(),
                                  offload::kBlockElements, Purpose::training, ranks.device);
  prepared.data =
      open_training_data(options, prepared.setup.model.vocabulary, prepared.setup.batch.seq_len);
  require_recorded_data(options, prepared.data.digest);
  prepared.tokenizer_warning = check_tokenizer(prepared.setup, prepared.data);
  if (options.sample_tokens > 0) prepared.samples = std::make_unique<RunSamples>(prepared.setup);
  learning_rates(options, step_count(prepared.setup, prepared.data));  // refuses a long --warmup
  // One that goes on has its space, or finds out what it needs when it has seen its store.
  if (!goes_on(options)) {
    prepared.nvme = check_storage(prepared.setup);
    prepared.pretrained = open_pretrained(prepared.setup);
  }
  check_outputs(options, comm);
  return prepared;
}

// What has to be the same on every rank, beside the options.
std::vector<SharedSetting> shared_settings(const TrainingData& data) {
  return {{"number of sequences in its data",
           fmt::format("{} {}", data.train->count(),
                       data.validation == nullptr ? 0 : data.validation->count())},
          {"content of its data", data_json(data.digest).dump()}};
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
  std::optional<RunProfile> profile;

  RunOutput output() {
    return {progress ? &*progress : nullptr, log ? &*log : nullptr, folder ? &*folder : nullptr,
            profile ? &*profile : nullptr};
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
  Options options = setup.options;
  options.device = setup.device.name();  // what auto came to: the run goes on there
  folder.write_options(options);
  folder.write_data(json_text(data_json(prepared.data.digest)));
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
  const std::string left = left_stores_text(prepared.nvme.directories);
  if (!options.json) {
    print_start({setup, prepared.data, session, durable, prepared.pretrained.get(), binding,
                 prepared.tokenizer_warning, left});
  }
  frame.progress.emplace(
      STDOUT_FILENO, progress_style(STDOUT_FILENO, options.json, setup.topology.world_size),
      step_count(setup, prepared.data), setup.plan.total_bytes(offload::Tier::nvme),
      evaluated_part(setup, prepared.data));
  if (!options.json) return;
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
  if (is_profiled(prepared.setup)) {
    frame.profile.emplace(RunProfileParts{*session.tracer(), session.device().device_budget(),
                                          session.device().host_budget(),
                                          prepared.setup.plan.total_bytes(offload::Tier::nvme),
                                          step_count(prepared.setup, prepared.data),
                                          prepared.setup.options.run, session.device().kind()});
  }
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
  if (frame.progress && !prepared.setup.options.json) {
    print_storage(session);
    print_bound(session);
  }
  return TrainingRun(prepared.setup, prepared.data, session, trainer, started,
                     {stop, requests, durable, copies ? &*copies : nullptr, prepared.samples.get()},
                     frame.output())
      .run();
}

}  // namespace

int run_train(const Options& asked, Ranks& ranks, std::chrono::steady_clock::time_point started) {
  comm::Communicator& comm = ranks.comm;
  const Options options = asks_for_auto_memory(asked)
                              ? with_auto_memory(asked, Measuring::what_is_not_known, ranks)
                              : asked;
  Prepared prepared = agree(comm, [&] { return prepare(options, ranks); });
  require_same(comm, shared_settings(prepared.data));
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
  if (!options.trace.empty()) session.tracer()->write(trace_path(options, comm), comm.rank());
  comm.barrier();
  return end == RunEnd::complete ? 0 : kExitResumable;
}

}  // namespace strata::engine

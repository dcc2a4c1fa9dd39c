#include "engine/run/train.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/data/training_data.h"
#include "engine/plan/plan_report.h"
#include "engine/plan/run_setup.h"
#include "engine/run/progress.h"
#include "engine/run/run_folder.h"
#include "engine/run/run_log.h"
#include "engine/run/session.h"
#include "engine/run/text_file.h"
#include "engine/run/training_run.h"
#include "engine/step/trainer.h"
#include "io/file_storage.h"

namespace strata::engine {

namespace {

// Everything that can be refused, found before anything is created.
struct Prepared {
  RunSetup setup;
  TrainingData data;
};

void check_storage(const RunSetup& setup) {
  const std::int64_t bytes = setup.plan.total_bytes(offload::Tier::nvme);
  if (bytes > 0) nvme_directory(setup);  // there is one
  // The run's own folder is made later, on a file system that exists; --nvme must be there.
  if (setup.options.nvme.empty()) return;
  io::check_storage_directory(setup.options.nvme, bytes * setup.topology.local_world_size);
}

std::string trace_path(const Options& options, const comm::Communicator& comm) {
  if (comm.world_size() == 1) return options.trace;
  return fmt::format("{}.{}", options.trace, comm.rank());
}

void check_outputs(const Options& options, const comm::Communicator& comm) {
  if (!options.trace.empty()) check_writable(trace_path(options, comm));
  if (comm.rank() != 0) return;
  if (!options.log.empty()) check_writable(options.log);
  if (!options.run.empty()) check_run_folder(options.run);
}

Prepared prepare(const Options& options, const comm::Communicator& comm) {
  Prepared prepared;
  const models::Gpt2Config model = models::parse_gpt2(options.model);
  prepared.data =
      open_training_data(options, model.vocabulary, options.seq_len.value_or(model.context));
  prepared.setup = make_run_setup(options, comm.topology(), comm.staging_bytes());
  check_storage(prepared.setup);
  check_outputs(options, comm);
  return prepared;
}

void print_start(const RunSetup& setup, const TrainingData& data, Session& session,
                 const std::string& binding) {
  std::string text = run_description(setup);
  text += fmt::format("data       {}; {} training sequences, {} for validation\n",
                      data.file->description(), data.train_samples, data.validation_samples);
  text += fmt::format("device     {}; {}\n", session.device().description(), ops::matmul_library());
  if (setup.topology.world_size > 1) {
    text += fmt::format("ranks      {} on {} host{}, {} thread{} each\n", setup.topology.world_size,
                        setup.topology.hosts, setup.topology.hosts == 1 ? "" : "s", setup.threads,
                        setup.threads == 1 ? "" : "s");
  }
  if (!binding.empty()) text += fmt::format("binding    {}\n", binding);
  if (session.storage() != nullptr) {
    text += fmt::format("storage    {}\n", session.storage()->description());
  }
  fmt::print("{}\n{}\n", text, plan_table(setup));
  std::fflush(stdout);
}

std::vector<std::string> log_paths(const Options& options, const RunFolder* folder) {
  std::vector<std::string> paths;
  if (!options.log.empty()) paths.push_back(options.log);
  if (folder != nullptr) paths.push_back(folder->log_path());
  return paths;
}

}  // namespace

int run_train(const Options& options, Ranks& ranks) {
  comm::Communicator& comm = ranks.comm;
  const Prepared prepared = agree(comm, [&] { return prepare(options, comm); });
  const bool speaks = comm.rank() == 0;
  std::optional<RunFolder> folder;
  agree(comm, [&] {  // afterwards the folder exists for every rank
    if (!speaks || options.run.empty()) return;
    folder.emplace(options.run);
    folder->write_options(options);
    folder->write_plan(plan_json(prepared.setup).dump(2));
  });
  Session session(prepared.setup, comm, ranks.failure);
  std::optional<RunLog> log;
  std::optional<Progress> progress;
  if (speaks) {
    if (folder) folder->write_arithmetic(arithmetic_json(prepared.setup, session.rates()).dump(2));
    log.emplace(log_paths(options, folder ? &*folder : nullptr));
    if (!options.json) print_start(prepared.setup, prepared.data, session, ranks.binding);
    progress.emplace(STDOUT_FILENO, progress_style(STDOUT_FILENO, options.json),
                     step_count(prepared.setup, prepared.data),
                     prepared.setup.plan.total_bytes(offload::Tier::nvme));
  }
  Trainer trainer(prepared.setup, session.trainer_parts());
  TrainingRun run(
      prepared.setup, prepared.data, session, trainer,
      {progress ? &*progress : nullptr, log ? &*log : nullptr, folder ? &*folder : nullptr});
  run.run();
  if (session.tracer() != nullptr) session.tracer()->write(trace_path(options, comm), comm.rank());
  comm.barrier();
  return 0;
}

}  // namespace strata::engine

#include "engine/train.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>

#include "engine/plan_report.h"
#include "engine/progress.h"
#include "engine/run_folder.h"
#include "engine/run_log.h"
#include "engine/run_setup.h"
#include "engine/session.h"
#include "engine/trainer.h"
#include "engine/training_data.h"
#include "engine/training_run.h"
#include "io/file_storage.h"
#include "kernels/base/error.h"
#include "kernels/base/machine.h"

#include <nlohmann/json.hpp>

namespace strata::engine {

namespace {

// Everything that can be refused, found before anything is created.
struct Prepared {
  RunSetup setup;
  TrainingData data;
};

void check_storage(const RunSetup& setup) {
  const std::int64_t bytes = setup.plan.total_bytes(offload::Tier::nvme);
  if (bytes == 0) return;
  const std::string directory = nvme_directory(setup);
  // The run's own folder is made later, on a file system that exists; --nvme must be there.
  if (setup.options.nvme.empty()) return;
  io::check_storage_directory(directory, bytes * setup.topology.local_world_size);
}

Prepared prepare(const Options& options, comm::Communicator& comm) {
  Prepared prepared;
  const models::Gpt2Config model = models::parse_gpt2(options.model);
  prepared.data =
      open_training_data(options, model.vocabulary, options.seq_len.value_or(model.context));
  prepared.setup = make_run_setup(options, comm.topology(), comm.staging_bytes());
  check_storage(prepared.setup);
  if (comm.rank() == 0 && !options.run.empty()) check_run_folder(options.run);
  return prepared;
}

// Runs `work` on every rank. If it fails on any, all ranks throw what the first of those threw, so
// that one message is printed and no rank waits for another.
template <typename Work>
auto agree(comm::Communicator& comm, Work&& work) {
  using Message = std::array<char, 1024>;
  Message mine{};
  std::optional<decltype(work())> result;
  std::exception_ptr failure;
  try {
    result.emplace(work());
  } catch (const std::exception& e) {
    failure = std::current_exception();
    std::snprintf(mine.data(), mine.size(), "%s", e.what());
  }
  std::vector<Message> all(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_host(std::as_bytes(std::span(mine)),
                       std::as_writable_bytes(std::span(all)));
  for (int rank = 0; rank < comm.world_size(); ++rank) {
    const Message& message = all[static_cast<std::size_t>(rank)];
    if (message[0] == '\0') continue;
    if (failure && comm.rank() == rank) std::rethrow_exception(failure);
    throw_error<ConfigError>("rank {}: {}", rank, message.data());
  }
  return std::move(*result);
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

void write_trace(const Options& options, Session& session, const comm::Communicator& comm) {
  if (session.tracer() == nullptr) return;
  const std::string suffix = comm.world_size() > 1 ? fmt::format(".{}", comm.rank()) : "";
  session.tracer()->write(options.trace + suffix, comm.rank());
}

int train_on_rank(const Options& options, comm::Communicator& comm, FailureLatch& failure,
                  const std::string& binding) {
  const Prepared prepared = agree(comm, [&] { return prepare(options, comm); });
  const bool speaks = comm.rank() == 0;
  std::optional<RunFolder> folder;
  if (speaks && !options.run.empty()) {
    folder.emplace(options.run);
    folder->write_options(options);
    folder->write_plan(plan_json(prepared.setup).dump(2));
  }
  comm.barrier();  // the folder exists for every rank
  Session session(prepared.setup, comm, failure);
  std::optional<RunLog> log;
  std::optional<Progress> progress;
  if (speaks) {
    log.emplace(log_paths(options, folder ? &*folder : nullptr));
    if (!options.json) print_start(prepared.setup, prepared.data, session, binding);
    progress.emplace(STDOUT_FILENO, progress_style(STDOUT_FILENO, options.json),
                     step_count(prepared.setup, prepared.data), prepared.setup.plan.total_bytes(offload::Tier::nvme));
  }
  Trainer trainer(prepared.setup, session.trainer_parts());
  TrainingRun run(prepared.setup, prepared.data, session, trainer,
                  {progress ? &*progress : nullptr, log ? &*log : nullptr,
                   folder ? &*folder : nullptr});
  run.run();
  write_trace(options, session, comm);
  comm.barrier();
  return 0;
}

}  // namespace

int run_train(const Options& options) {
  const std::string binding = undo_default_binding();
  FailureLatch failure;
  const auto comm = make_communicator(options, failure);
  if (comm->world_size() == 1) return train_on_rank(options, *comm, failure, binding);
  try {
    return train_on_rank(options, *comm, failure, binding);
  } catch (const ConfigError& e) {
    // Every rank got here together (agree) and rank 0 speaks for all.
    if (comm->rank() == 0) std::fprintf(stderr, "strata: error: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "strata: error: rank %d: %s\n", comm->rank(), e.what());
    std::fflush(stderr);
    comm->abort();
    return 1;
  }
}

}  // namespace strata::engine

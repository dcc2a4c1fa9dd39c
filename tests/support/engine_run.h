// EngineRun: a whole training run inside the test's process, on one rank or as one of several
// (rank_runs.h): the machinery of `strata train` without its command line, progress and log. And
// what the tests compare of it.
//
// With a run folder (Options::run, made if missing) it has a store and goes on from what is there;
// it commits when it is told to, whatever --checkpoint-every says.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/sample_order.h"
#include "engine/data/training_data.h"
#include "engine/plan/run_setup.h"
#include "engine/run/durable_run.h"
#include "engine/run/ranks.h"
#include "engine/run/session.h"
#include "engine/step/trainer.h"
#include "io/fault_storage.h"
#include "kernels/base/bytes.h"
#include "tests/support/temporary_folder.h"

namespace strata::test {

// With blocks so small that the shards of small models have several.
inline engine::RunSetup make_setup(const engine::Options& options, comm::Communicator& comm,
                                   std::int64_t block_elements = offload::kShardAlignmentElements,
                                   const engine::RankDevice& device = {}) {
  return engine::make_run_setup(options, comm.topology(), comm.staging_bytes(), block_elements,
                                engine::Purpose::training, device);
}
inline engine::RunSetup make_setup(const engine::Options& options, const engine::Ranks& ranks,
                                   std::int64_t block_elements = offload::kShardAlignmentElements) {
  return make_setup(options, ranks.comm, block_elements, ranks.device);
}

// Members in the order in which `strata train` sets them up.
class EngineRun {
 public:
  explicit EngineRun(const engine::Options& options,
                     std::int64_t block_elements = offload::kShardAlignmentElements)
      : EngineRun(options, std::nullopt, block_elements) {}
  // With `faults`, state on NVMe lies in a storage in memory that has them, and nothing is durable.
  EngineRun(const engine::Options& options, const std::optional<io::FaultRules>& faults,
            std::int64_t block_elements = offload::kShardAlignmentElements)
      : EngineRun(options, faults, block_elements, nullptr) {}
  // As one of these, which outlive it.
  EngineRun(const engine::Options& options, const engine::Ranks& ranks,
            std::int64_t block_elements = offload::kShardAlignmentElements)
      : EngineRun(options, std::nullopt, block_elements, &ranks) {}
  ~EngineRun() {
    if (durable_ != nullptr) durable_->end();
  }

  // The next step at the options' learning rate, or another.
  engine::StepResult step() { return step(setup_.options.lr); }
  engine::StepResult step(double learning_rate) {
    const std::int64_t position = steps_++ * setup_.batch.global_batch;
    return trainer_.step(*data_.train, order_, position, learning_rate);
  }
  // Wants the state of the last step committed, in the shadow of the next as `strata train` does.
  void commit() {
    durable_->committer().want(steps_, snapshot());
    if (!trainer_.update_pending()) durable_->committer().updates_applied();
  }
  // Waits for the last step to be committed: a run that stops.
  void commit_now() { durable_->commit_now(trainer_, steps_, snapshot()); }
  std::int64_t steps_done() const { return steps_; }
  engine::DurableRun* durable() { return durable_.get(); }  // null: without a run folder

  // Goes past the data of one step.
  void skip_data() { ++steps_; }
  double evaluate(std::int64_t sequences) {
    return trainer_.evaluate(*data_.validation, sequences);
  }
  std::vector<std::vector<float>> masters() {
    std::vector<std::vector<float>> all;
    for (std::size_t u = 0; u < setup_.units.size(); ++u) {
      all.push_back(trainer_.master(static_cast<int>(u)));
    }
    return all;
  }

  engine::Trainer& trainer() { return trainer_; }
  engine::Session& session() { return session_; }
  const engine::RunSetup& setup() const { return setup_; }
  const offload::Plan& plan() const { return setup_.plan; }
  const engine::TrainingData& data() const { return data_; }

 private:
  EngineRun(const engine::Options& options, const std::optional<io::FaultRules>& faults,
            std::int64_t block_elements, const engine::Ranks* ranks)
      : alone_(ranks == nullptr ? comm::make_single_rank_communicator() : nullptr),
        ranks_(ranks == nullptr ? engine::Ranks{*alone_, failure_, {}, {}} : *ranks),
        setup_(make_setup(options, ranks_.comm, block_elements, ranks_.device)),
        data_(engine::open_training_data(options, setup_.model.vocabulary, setup_.batch.seq_len)),
        durable_(faults || options.run.empty() ? nullptr : open_folder(setup_, ranks_)),
        session_(setup_, ranks_.comm, ranks_.failure, open_store()),
        faulty_(faults ? io::make_fault_storage(setup_.plan.total_bytes(offload::Tier::nvme),
                                                *faults, io_timeout(options))
                       : nullptr),
        trainer_(setup_, parts()),
        order_(data_.train->count(), options.seed) {
    if (durable_ == nullptr) return;
    durable_->begin(trainer_, session_, {});
    trainer_.hold_updates_at(durable_->committer());
    steps_ = durable_->step();
  }

  static std::chrono::milliseconds io_timeout(const engine::Options& options) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::duration<double>(options.io_timeout));
  }
  static std::unique_ptr<engine::DurableRun> open_folder(const engine::RunSetup& setup,
                                                         const engine::Ranks& ranks) {
    std::filesystem::create_directories(setup.options.run);
    return std::make_unique<engine::DurableRun>(setup, ranks.comm, ranks.failure);
  }
  engine::Session::OpenStore open_store() {
    if (durable_ == nullptr) return {};
    return [this](const io::EngineChoice& engine, Tracer* tracer) {
      return durable_->open_store(engine, tracer);
    };
  }
  store::Snapshot snapshot() const {
    store::Snapshot snapshot;
    snapshot.data_position = steps_ * setup_.batch.global_batch;
    snapshot.schedule_step = steps_;
    snapshot.optimizer_step = trainer_.progress().updates;
    snapshot.skipped_in_a_row = trainer_.progress().skipped_in_a_row;
    return snapshot;
  }
  engine::TrainerParts parts() {
    engine::TrainerParts parts = session_.trainer_parts();
    if (faulty_ != nullptr) parts.storage = faulty_.get();
    if (durable_ != nullptr) parts.filler = durable_->filler(parts.workers);
    return parts;
  }

  FailureLatch failure_;
  std::unique_ptr<comm::Communicator> alone_;  // null: one of several ranks
  const engine::Ranks ranks_;
  engine::RunSetup setup_;
  engine::TrainingData data_;
  std::unique_ptr<engine::DurableRun> durable_;  // null: nothing outlives the run
  engine::Session session_;
  std::unique_ptr<io::Storage> faulty_;
  engine::Trainer trainer_;
  engine::SampleOrder order_;
  std::int64_t steps_ = 0;
};

// What a run computes. Bit-equal runs have equal results.
struct RunResult {
  std::vector<double> losses;
  std::vector<double> grad_norms;
  std::optional<double> validation_loss;  // at the end
  std::vector<std::vector<float>> masters;
};

inline RunResult result_of(EngineRun& run, int steps, std::int64_t validation_sequences) {
  RunResult result;
  for (int i = 0; i < steps; ++i) {
    const engine::StepResult step = run.step();
    result.losses.push_back(step.loss);
    result.grad_norms.push_back(step.grad_norm);
  }
  if (validation_sequences > 0) result.validation_loss = run.evaluate(validation_sequences);
  result.masters = run.masters();
  return result;
}

inline RunResult train(const engine::Options& options, int steps,
                       std::int64_t validation_sequences) {
  EngineRun run(options);
  return result_of(run, steps, validation_sequences);
}

// The same options with the smallest budgets that their plan fits in: exactly its bytes.
inline engine::Options with_smallest_budgets(engine::Options options, const engine::Ranks& ranks) {
  const engine::RunSetup setup = make_setup(options, ranks);
  options.device_memory = setup.plan.total_bytes(offload::Tier::device);
  options.host_memory =
      setup.plan.total_bytes(offload::Tier::host) * setup.topology.local_world_size;
  return options;
}
inline engine::Options with_smallest_budgets(const engine::Options& options) {
  const auto alone = comm::make_single_rank_communicator();
  FailureLatch failure;
  return with_smallest_budgets(options, {*alone, failure, {}, {}});
}

// Some text with structure to learn, the same everywhere.
inline void write_text(const std::string& path, int bytes) {
  static constexpr std::string_view kWords[] = {"a ",     "tier ", "keeps ", "its ",   "weights ",
                                                "where ", "they ", "fit",    "; and ", "then.\n"};
  std::string text;
  std::uint32_t random = 12345;
  while (text.size() < static_cast<std::size_t>(bytes)) {
    random = random * 1664525u + 1013904223u;
    text += kWords[(random >> 16) % std::size(kWords)];
  }
  text.resize(static_cast<std::size_t>(bytes));
  std::ofstream(path, std::ios::binary) << text;
}

// A run on folder/text.txt, with its state in the folder and the same budget for device and host.
inline engine::Options small_run(const TemporaryFolder& folder, const char* model,
                                 std::int64_t budget_bytes) {
  engine::Options options;
  options.model = model;
  options.data = folder.path("text.txt");
  options.nvme = folder.path();
  options.device_memory = budget_bytes;
  options.host_memory = budget_bytes;
  return options;
}

// Headerless uint16 tokens below `vocabulary`.
inline void write_tokens(const std::string& path, int tokens, std::uint32_t vocabulary) {
  std::ofstream file(path, std::ios::binary);
  std::uint32_t random = 54321;
  for (int i = 0; i < tokens; ++i) {
    random = random * 1664525u + 1013904223u;
    const std::uint32_t token = (random >> 8) % vocabulary;
    file.put(static_cast<char>(token & 0xFF)).put(static_cast<char>(token >> 8));
  }
}

}  // namespace strata::test

// A small run that is to crash: its options, its ranks (threads of this process), and what it
// computes if nothing happens to it.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/run/training_run.h"
#include "tests/support/engine_run.h"
#include "tests/support/thread_ranks.h"

namespace strata::engine::testing {

inline constexpr std::int64_t kSteps = 6;

struct CrashCase {
  std::string name;
  std::string place = "all=nvme";
  std::int64_t commit_every = 1;  // steps; 0: one slot, no commits
  double clip_norm = 1;           // 0: updates in backward, otherwise deferred
  int ranks = 1;
  int directories = 1;
  std::int64_t stopped_after = kSteps;  // the run that is to crash, as by a signal
  std::int64_t skipped_step = 0;        // whose loss is not finite; 0: none
  std::vector<std::string> lr_scale{};  // "PATTERN=0" freezes
};

inline void PrintTo(const CrashCase& test, std::ostream* out) { *out << test.name; }

// Of a run on `data`; with a run folder, its state is in folders beside that.
inline Options options_of(const CrashCase& test, const std::string& data,
                          const std::string& folder) {
  Options options;
  options.model = "gpt2:layers=2,hidden=16,heads=2,context=16";
  options.data = data;
  options.global_batch = 2;
  options.steps = kSteps;
  options.warmup = "2";
  options.lr = 1e-2;
  options.clip_norm = test.clip_norm;
  options.on_nonfinite = test.skipped_step > 0 ? "skip" : "stop";
  options.lr_scale = test.lr_scale;
  options.place = folder.empty() ? "all=host" : test.place;
  options.device_memory = options.host_memory = 32 * kMiB;
  options.matmul_dtype = "f32";  // forced: no timing decides
  options.threads = 1;
  if (folder.empty()) return options;
  options.run = folder + "/run";
  options.checkpoint_every = CheckpointInterval{test.commit_every, 0};
  for (int d = 0; d < test.directories; ++d) {
    options.nvme += (d > 0 ? "," : "") + folder + "/drive" + std::to_string(d) + "=1GB/s";
  }
  return options;
}

inline std::vector<RunSetup> setups_of(const CrashCase& test, const Options& options) {
  std::vector<RunSetup> setups;
  comm::Topology topology;
  topology.world_size = topology.local_world_size = test.ranks;
  for (int rank = 0; rank < test.ranks; ++rank) {
    topology.rank = topology.local_rank = rank;
    setups.push_back(make_run_setup(options, topology, {}, offload::kShardAlignmentElements));
  }
  return setups;
}

// A communicator that can make this rank's loss not a number: the sum of it is the first thing that
// ranks exchange in a step.
class ForgedLoss final : public comm::Communicator {
 public:
  explicit ForgedLoss(comm::Communicator& ranks) : ranks_(ranks) {}
  void forge_next() { is_next_ = true; }

  const comm::Topology& topology() const override { return ranks_.topology(); }
  StagingBytes staging_bytes() const override { return ranks_.staging_bytes(); }
  DeviceBuffer attach(Device& device) override { return ranks_.attach(device); }
  void all_gather(Stream& stream, void* full, std::int64_t bytes) override {
    ranks_.all_gather(stream, full, bytes);
  }
  void reduce_scatter(Stream& stream, float* full, std::int64_t elements) override {
    ranks_.reduce_scatter(stream, full, elements);
  }
  void barrier() override { ranks_.barrier(); }
  void broadcast(std::span<std::byte> data, int root) override { ranks_.broadcast(data, root); }
  void all_gather_host(std::span<const std::byte> mine, std::span<std::byte> all) override {
    std::vector<std::byte> given(mine.begin(), mine.end());
    if (std::exchange(is_next_, false)) {
      const double loss = std::numeric_limits<double>::quiet_NaN();
      std::memcpy(given.data(), &loss, sizeof(loss));
    }
    ranks_.all_gather_host(given, all);
  }
  void abort(int exit_code) noexcept override { ranks_.abort(exit_code); }

 private:
  comm::Communicator& ranks_;
  bool is_next_ = false;
};

// Every lasting state of a rank's shards, padding included, in the order of commit tables.
inline std::vector<std::byte> read_state(offload::StateStore& store, Device& device) {
  const offload::Plan& plan = store.plan();
  Budget budget("test", kMiB);
  const AlignedBuffer scratch(budget, "scratch", 4 * plan.largest_block_bytes());
  StateAccess access(store, device, scratch.span());
  std::vector<std::byte> all;
  for (int unit = 0; unit < static_cast<int>(plan.units.size()); ++unit) {
    for (const offload::StateKind kind : offload::kLastingKinds) {
      const auto bytes = static_cast<std::size_t>(plan.shard_bytes(store.unit(unit), kind));
      if (bytes == 0) continue;
      all.resize(all.size() + bytes);
      access.read(unit, kind, 0, std::span(all).last(bytes));
    }
  }
  return all;
}

// Who hears of the commits of a rank.
class CommitObserver {
 public:
  virtual ~CommitObserver() = default;
  virtual void wanted(std::int64_t step) = 0;
  virtual void acknowledged(std::int64_t step) = 0;
  virtual void updates_begin() = 0;  // the gate is asked
  virtual void updates_began() = 0;  // it has answered
};

// One rank of a run, as `strata train` sets it up and TrainingRun drives it. Members in that order.
class TrainingRank final : private UpdateGate {
 public:
  // `open_store`: instead of what the run folder has. `observer` may be null.
  TrainingRank(const CrashCase& test, const Options& options, comm::Communicator& comm,
               CommitObserver* observer = nullptr, const Session::OpenStore& open_store = {})
      : test_(test),
        comm_(comm),
        setup_(test::make_setup(options, comm_)),
        data_(open_training_data(options, setup_.model.vocabulary, setup_.batch.seq_len)),
        durable_(options.run.empty() ? nullptr
                                     : std::make_unique<DurableRun>(setup_, comm_, failure_)),
        session_(setup_, comm_, failure_, open_store ? open_store : own_store()),
        trainer_(setup_, parts()),
        order_(data_.train->count(), options.seed),
        schedule_(learning_rates(options, kSteps)),
        observer_(observer) {
    if (durable_ == nullptr) return;
    durable_->begin(trainer_, session_, {});
    trainer_.hold_updates_at(*this);
    step_ = durable_->step();
  }
  ~TrainingRank() override {
    if (durable_ != nullptr) durable_->end();
  }

  std::int64_t steps_done() const { return step_; }

  // Returns the bits of its loss, which may not be a number.
  std::uint64_t step() {
    if (++step_ == test_.skipped_step) comm_.forge_next();
    const StepResult result = trainer_.step(
        *data_.train, order_, (step_ - 1) * setup_.batch.global_batch, schedule_.at(step_));
    EXPECT_EQ(result.skipped, step_ == test_.skipped_step);
    return std::bit_cast<std::uint64_t>(result.loss);
  }
  void commit_if_due() {
    if (test_.commit_every == 0 || step_ % test_.commit_every != 0 || step_ == kSteps) return;
    if (observer_ != nullptr) observer_->wanted(step_);
    durable_->committer().want(step_, snapshot());
    if (!trainer_.update_pending()) durable_->committer().updates_applied();
  }
  // As at a stop, or at the end.
  void finish() {
    if (observer_ != nullptr) observer_->wanted(step_);
    durable_->commit_now(trainer_, step_, snapshot());
    if (observer_ != nullptr) observer_->acknowledged(step_);
  }
  std::vector<std::byte> state() {
    trainer_.drain();
    return read_state(trainer_.state(), session_.device());
  }

 private:
  void updates_applied() override { durable_->committer().updates_applied(); }
  bool holds_updates() const override { return durable_->committer().holds_updates(); }
  void before_updates() override {
    if (observer_ != nullptr) observer_->updates_begin();
    durable_->committer().before_updates();
  }
  void updates_may_start() override {
    durable_->committer().updates_may_start();
    const auto committed = durable_->committer().committed_step();
    if (observer_ == nullptr) return;
    if (committed) observer_->acknowledged(*committed);
    observer_->updates_began();
  }

  store::Snapshot snapshot() const {
    store::Snapshot snapshot;
    snapshot.data_position = step_ * setup_.batch.global_batch;
    snapshot.schedule_step = step_;
    snapshot.optimizer_step = trainer_.progress().updates;
    snapshot.skipped_in_a_row = trainer_.progress().skipped_in_a_row;
    return snapshot;
  }
  Session::OpenStore own_store() {
    if (durable_ == nullptr) return {};
    return [this](const io::EngineChoice& engine, Tracer* tracer) {
      return durable_->open_store(engine, tracer);
    };
  }
  TrainerParts parts() {
    TrainerParts parts = session_.trainer_parts();
    if (durable_ != nullptr) parts.filler = durable_->filler(parts.workers);
    return parts;
  }

  const CrashCase& test_;
  FailureLatch failure_;
  ForgedLoss comm_;
  RunSetup setup_;
  TrainingData data_;
  std::unique_ptr<DurableRun> durable_;  // null: nothing outlives the run
  Session session_;
  Trainer trainer_;
  SampleOrder order_;
  LrSchedule schedule_;
  CommitObserver* observer_;
  std::int64_t step_ = 0;
};

// What a run computes if nothing happens to it.
struct Trajectory {
  using State = std::vector<std::vector<std::byte>>;  // by rank
  std::vector<std::uint64_t> losses;                  // bits, of steps 1, 2, …
  std::vector<State> states;                          // at the start and after each step
};

// Runs body(communicator) on as many ranks as the case has; what they threw, "" for nothing.
inline std::string failure_on_ranks(int ranks,
                                    const std::function<void(comm::Communicator&)>& body) {
  std::string text;
  for (const std::exception_ptr& failure : test::ThreadRanks(ranks).run(body)) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      if (text.empty()) text = error.what();
    }
  }
  return text;
}

inline Trajectory uninterrupted(const CrashCase& test, const std::string& data) {
  const auto ranks = static_cast<std::size_t>(test.ranks);
  Trajectory run{std::vector<std::uint64_t>(kSteps),
                 std::vector<Trajectory::State>(kSteps + 1, Trajectory::State(ranks))};
  EXPECT_EQ(failure_on_ranks(test.ranks,
                             [&](comm::Communicator& comm) {
                               const auto own = static_cast<std::size_t>(comm.rank());
                               TrainingRank rank(test, options_of(test, data, ""), comm);
                               run.states[0][own] = rank.state();
                               for (std::size_t step = 1; step <= kSteps; ++step) {
                                 const std::uint64_t loss = rank.step();
                                 if (own == 0) run.losses[step - 1] = loss;
                                 run.states[step][own] = rank.state();
                               }
                             }),
            "");
  return run;
}

}  // namespace strata::engine::testing

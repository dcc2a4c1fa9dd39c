// The plan says what every step moves, by link and kind, and the ledger counts just that: wherever
// state lives, in passes of any size, on any number of ranks, whatever happens between the steps.
#include <gtest/gtest.h>

#include "tests/engine/step/regimes.h"
#include "tests/support/thread_ranks.h"

namespace strata::offload {

// What a failed comparison shows.
inline void PrintTo(const Traffic& traffic, std::ostream* out) {
  traffic.for_each([&](Link link, MovedKind kind, std::int64_t bytes) {
    *out << "\n  " << key_of(link) << " " << name_of(kind) << " " << bytes;
  });
}

}  // namespace strata::offload

namespace strata::test {
namespace {

using engine::Options;
using engine::StepResult;
using engine::Trainer;
using offload::Account;
using offload::Link;
using offload::MovedKind;
using offload::Traffic;

constexpr int kAccountedSteps = 3;

// A step with its update, which a deferred one has when the next step has begun or `trainer` was
// drained.
Traffic charged(const engine::RunSetup& setup, const StepResult& step, const Trainer& trainer) {
  Traffic traffic = step.traffic;
  if (setup.plan.update == offload::UpdateTime::deferred) traffic += trainer.update_traffic();
  return traffic;
}

// `step`: makes the next one. `between`: after each but the last.
template <typename Step, typename Between>
void expect_accounted(const engine::RunSetup& setup, Trainer& trainer, const Step& step,
                      const Between& between) {
  const Traffic planned = setup.plan.step_traffic();
  StepResult last = step();
  for (int i = 1; i < kAccountedSteps; ++i) {
    between();
    const StepResult next = step();
    EXPECT_EQ(charged(setup, last, trainer), planned) << "step " << i;
    last = next;
  }
  trainer.drain();
  EXPECT_EQ(charged(setup, last, trainer), planned) << "the last step";
}

void expect_accounted(const Options& options) {
  EngineRun run(options);
  expect_accounted(
      run.setup(), run.trainer(), [&] { return run.step(); }, [] {});
}

const std::vector<Named>& arithmetics() {
  static const std::vector<Named> kArithmetics = {
      {"deferred", [](Options&) {}},
      {"in_backward", [](Options& o) { o.clip_norm = 0; }},
      {"deferred_smaller_last_pass", [](Options& o) { o.pass = 2; }},
      {"in_backward_smaller_last_pass",
       [](Options& o) {
         o.clip_norm = 0;
         o.pass = 2;
       }},
      {"llama_deferred_three_passes",
       [](Options& o) {
         o.model = kLlama;
         o.pass = 1;
       }},
      {"llama_in_backward",
       [](Options& o) {
         o.model = kLlama;
         o.clip_norm = 0;
       }},
      {"deferred_bf16_gradients",
       [](Options& o) {
         o.grad_dtype = "bf16";
         o.pass = 2;
       }},
      {"in_backward_bf16_gradients",
       [](Options& o) {
         o.grad_dtype = "bf16";
         o.clip_norm = 0;
       }},
      {"deferred_f32",
       [](Options& o) {
         o.precision = "f32";
         o.matmul_dtype = "f32";
       }},
      {"deferred_int8_moments", [](Options& o) { o.moments = "int8"; }},
      {"in_backward_bf16_moments",
       [](Options& o) {
         o.moments = "bf16";
         o.clip_norm = 0;
       }},
      {"deferred_lion", [](Options& o) { o.optimizer = "lion"; }},
      {"deferred_frozen",
       [](Options& o) {
         o.lr_scale = {"h.1.*=0", "wte.*=0"};
       }},
      {"in_backward_frozen",
       [](Options& o) {
         o.lr_scale = {"h.1.*=0", "h.0.attn*=0"};
         o.clip_norm = 0;
       }},
  };
  return kArithmetics;
}

struct Case {
  Named arithmetic;
  Named regime;
};

std::vector<Case> cases() {
  constexpr std::size_t kThorough = 2;
  std::vector<Case> all;
  for (std::size_t a = 0; a < arithmetics().size(); ++a) {
    const std::size_t count = a < kThorough ? regimes().size() : kEssentialRegimes;
    for (std::size_t r = 0; r < count; ++r) all.push_back({arithmetics()[a], regimes()[r]});
  }
  return all;
}

class Accounting : public ::testing::TestWithParam<Case> {};

TEST_P(Accounting, EveryStepIsThePlans) {
  expect_accounted(options_of(GetParam().arithmetic, GetParam().regime));
}

INSTANTIATE_TEST_SUITE_P(All, Accounting, ::testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.arithmetic.name + "_" + info.param.regime.name;
});

class Between : public ::testing::TestWithParam<double> {  // --clip-norm
 protected:
  Options options() const {
    Options options = base_options();
    options.clip_norm = GetParam();
    placed("weights=nvme,remainder=device,moments=nvme,gradients=device", "nvme")(options);
    return options;
  }
};

// An evaluation, which applies deferred updates and moves much of its own, is no step's.
TEST_P(Between, EvaluationsAreChargedToNoStep) {
  EngineRun run(options());
  const Traffic before = run.trainer().ledger().total(Account::pass);
  expect_accounted(
      run.setup(), run.trainer(), [&] { return run.step(); }, [&] { run.evaluate(5); });
  const Traffic passes = run.trainer().ledger().total(Account::pass);
  EXPECT_GT(passes.bytes(Link::to_device, MovedKind::batch) -
                before.bytes(Link::to_device, MovedKind::batch),
            kAccountedSteps * run.plan().step_traffic().bytes(Link::to_device, MovedKind::batch));
}

// Copies of what lives in memory are the commit's, on the way from the device too.
TEST_P(Between, CommitsAreChargedToNoStep) {
  const TemporaryFolder folder;
  Options durable = options();
  durable.run = folder.path("run");
  durable.checkpoint_every = engine::CheckpointInterval{1, 0};
  EngineRun run(durable);
  expect_accounted(
      run.setup(), run.trainer(), [&] { return run.step(); }, [&] { run.commit(); });
  const Traffic copies = run.trainer().ledger().total(Account::commit);
  const std::int64_t on_device = run.plan().commit_copy_bytes();
  EXPECT_EQ(copies.bytes(Link::from_device), (kAccountedSteps - 1) * on_device);
  EXPECT_EQ(copies.bytes(Link::nvme_written, MovedKind::remainder),
            (kAccountedSteps - 1) * on_device);
}

// What the store counts by kind is all that the drive saw, but for measuring it.
TEST_P(Between, TheLedgerIsAllThatTheStorageMoved) {
  EngineRun run(options());
  const io::Volume& volume = *run.session().volume();
  const auto moved = [&] {
    const Traffic counted = run.trainer().ledger().total();
    return std::pair(volume.traffic().read_bytes - counted.bytes(Link::nvme_read),
                     volume.traffic().written_bytes - counted.bytes(Link::nvme_written));
  };
  const auto before = moved();
  run.step();
  run.evaluate(5);
  run.masters();
  EXPECT_EQ(moved(), before);
}

INSTANTIATE_TEST_SUITE_P(UpdateTime, Between, ::testing::Values(1.0, 0.0), [](const auto& info) {
  return info.param > 0 ? "deferred" : "in_backward";
});

struct Shared {
  std::string name;
  int ranks;
  std::string place;
  double clip_norm;
};

class Ranks : public ::testing::TestWithParam<Shared> {};

// Seven sequences, in passes of two: shares differ, and some rank's last pass is smaller or empty.
TEST_P(Ranks, EveryStepOfEachIsItsPlans) {
  Options options = base_options();
  options.global_batch = 7;
  options.micro_batch = 1;
  options.pass = 2;
  options.val_fraction = 0;
  options.clip_norm = GetParam().clip_norm;
  options.threads = 1;
  options.host_memory = 192 * kMiB;
  placed(GetParam().place, "nvme")(options);
  const auto body = [&](comm::Communicator& comm) {
    const engine::RunSetup setup = make_setup(options, comm);
    const engine::TrainingData data =
        engine::open_training_data(options, setup.model.vocabulary, setup.batch.seq_len);
    FailureLatch failure;
    engine::Session session(setup, comm, failure);
    Trainer trainer(setup, session.trainer_parts());
    const engine::SampleOrder order(data.train->count(), options.seed);
    std::int64_t position = 0;
    const auto step = [&] {
      const StepResult result = trainer.step(*data.train, order, position, options.lr);
      position += setup.batch.global_batch;
      return result;
    };
    expect_accounted(setup, trainer, step, [] {});
    EXPECT_GT(setup.plan.step_traffic().bytes(Link::gathered), 0);
  };
  for (const std::exception_ptr& failure : ThreadRanks(GetParam().ranks).run(body)) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
}

INSTANTIATE_TEST_SUITE_P(Shares, Ranks,
                         ::testing::Values(Shared{"two_on_nvme", 2, "all=nvme", 1},
                                           Shared{"two_on_nvme_in_backward", 2, "all=nvme", 0},
                                           Shared{"two_on_device", 2, "all=device", 1},
                                           Shared{"three_mixed", 3,
                                                  "weights=device,moments=nvme,gradients=nvme", 1},
                                           Shared{"three_on_host_in_backward", 3, "all=host", 0}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::test

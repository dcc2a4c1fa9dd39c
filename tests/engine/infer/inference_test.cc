// A model that is read: the loss that training sees of the same weights, bit for bit, from every
// tier, and within the budgets that its plan says.
#include "engine/infer/inference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/engine_run.h"
#include "tests/support/forced_arithmetic.h"
#include "tests/support/thread_ranks.h"

namespace strata::test {
namespace {

using engine::EvaluationTotals;
using engine::Inference;
using engine::Options;
using engine::Purpose;
using engine::RunSetup;
using engine::Session;
using engine::TrainingData;
using offload::Tier;

constexpr const char* kGpt2 = "gpt2:layers=3,hidden=48,heads=3,context=32";
constexpr const char* kLlama =
    "llama:layers=3,hidden=48,heads=6,kv-heads=2,intermediate=80,context=32";

RunSetup inference_setup(const Options& options, comm::Communicator& comm) {
  return engine::make_run_setup(options, comm.topology(), comm.staging_bytes(),
                                offload::kShardAlignmentElements, Purpose::inference);
}

// The members in the order in which `strata eval` sets them up.
struct Machine {
  Machine(const Options& options, comm::Communicator& comm)
      : setup(inference_setup(options, comm)),
        data(open_training_data(options, setup.model.vocabulary, setup.batch.seq_len)),
        session(setup, comm, failure),
        inference(setup, session.trainer_parts()) {}

  EvaluationTotals evaluate() { return inference.evaluate(*data.validation, samples()); }
  std::int64_t samples() const { return data.validation->count(); }

  FailureLatch failure;
  RunSetup setup;
  TrainingData data;
  Session session;
  Inference inference;
};

class Inferences : public ::testing::TestWithParam<std::string> {  // --precision
 protected:
  Inferences() { write_text(folder_.path("text.txt"), 12000); }

  Options options(const char* model) const {
    Options options = small_run(folder_, model, 32 * kMiB);
    options.val_fraction = 0.4;
    options.micro_batch = 2;
    options.global_batch = 6;
    options.pass = 3;
    options.precision = GetParam();
    options.matmul_dtype = forced_arithmetic(GetParam());
    options.threads = 2;
    return options;
  }
  EvaluationTotals evaluate(const Options& options) const {
    const auto comm = comm::make_single_rank_communicator();
    return Machine(options, *comm).evaluate();
  }

  TemporaryFolder folder_;
};

TEST_P(Inferences, SeeTheLossThatTrainingSees) {
  for (const char* const model : {kGpt2, kLlama}) {
    EngineRun training(options(model));
    const EvaluationTotals totals = evaluate(options(model));
    const std::int64_t samples = training.data().validation->count();
    EXPECT_EQ(totals.loss(), training.evaluate(samples)) << model;
    EXPECT_EQ(totals.targets, samples * 32);
    EXPECT_GE(totals.correct, 0);
    EXPECT_LE(totals.correct, totals.targets);
    EXPECT_DOUBLE_EQ(totals.perplexity(), std::exp(totals.loss()));
  }
}

TEST_P(Inferences, ComputeTheSameBitsFromEveryTierAndInEveryPass) {
  for (const char* const model : {kGpt2, kLlama}) {
    const EvaluationTotals expected = evaluate(options(model));
    for (const std::string tier : {"device", "host", "nvme"}) {
      for (const int pass : {1, 4, 100}) {
        Options placed = options(model);
        placed.place = "weights=" + tier;
        placed.activations = tier;
        placed.pass = pass;
        placed.prefetch = pass % 3;
        const EvaluationTotals totals = evaluate(placed);
        EXPECT_EQ(totals.loss_sum, expected.loss_sum) << model << " " << tier << " " << pass;
        EXPECT_EQ(totals.targets, expected.targets);
        EXPECT_EQ(totals.correct, expected.correct);
      }
    }
  }
}

// With budgets of exactly the plan's bytes, all of them in use at once.
TEST_P(Inferences, ReserveThePlan) {
  const auto comm = comm::make_single_rank_communicator();
  for (const char* const tier : {"device", "host", "nvme"}) {
    Options smallest = options(kLlama);
    smallest.place = std::string("weights=") + tier;
    smallest.activations = tier;
    const RunSetup setup = inference_setup(smallest, *comm);
    smallest.device_memory = setup.plan.total_bytes(Tier::device);
    smallest.host_memory = setup.plan.total_bytes(Tier::host);
    Machine machine(smallest, *comm);
    const offload::Plan& plan = machine.setup.plan;
    Device& device = machine.session.device();
    EXPECT_EQ(plan.total_bytes(Tier::device), *smallest.device_memory) << tier;
    EXPECT_EQ(device.device_budget().peak_bytes(), plan.total_bytes(Tier::device)) << tier;
    EXPECT_EQ(device.host_budget().peak_bytes(), plan.total_bytes(Tier::host)) << tier;
    machine.evaluate();
    EXPECT_EQ(device.device_budget().peak_bytes(), plan.total_bytes(Tier::device)) << tier;
    EXPECT_EQ(device.host_budget().peak_bytes(), plan.total_bytes(Tier::host)) << tier;
  }
}

// Budgets that hold neither all weights nor training's state at all.
TEST_P(Inferences, StreamAModelThatIsLargerThanItsBudgets) {
  Options tiny = options("gpt2:layers=12,hidden=48,heads=3,context=32");
  const EvaluationTotals expected = evaluate(tiny);
  tiny.pass = 1;
  tiny.prefetch = 0;
  tiny.place = "weights=nvme";
  tiny.activations = "nvme";
  const auto comm = comm::make_single_rank_communicator();
  const RunSetup on_nvme = inference_setup(tiny, *comm);
  tiny.device_memory = on_nvme.plan.total_bytes(Tier::device);
  tiny.host_memory = on_nvme.plan.total_bytes(Tier::host);
  EXPECT_LT(*tiny.host_memory, on_nvme.plan.total_bytes(Tier::nvme));
  tiny.place = "";
  tiny.activations = "auto";
  EXPECT_THROW(make_setup(tiny, *comm), engine::PlanDoesNotFit);
  Machine machine(tiny, *comm);
  EXPECT_GT(machine.setup.plan.total_bytes(Tier::nvme), 0);
  EXPECT_EQ(machine.evaluate().loss_sum, expected.loss_sum);
}

// The ranks' sums are added in another order, and a row's products may be rounded otherwise where
// fewer rows are multiplied with it (oneDNN below AVX-512): a row's loss by one rounding of f32.
TEST_P(Inferences, OfSeveralRanksSumUp) {
  const EvaluationTotals expected = evaluate(options(kLlama));
  for (const int ranks : {2, 3}) {
    ThreadRanks threads(ranks);
    std::vector<EvaluationTotals> totals(static_cast<std::size_t>(ranks));
    const auto failures = threads.run([&](comm::Communicator& comm) {
      totals[static_cast<std::size_t>(comm.rank())] = Machine(options(kLlama), comm).evaluate();
    });
    for (const std::exception_ptr& failure : failures) EXPECT_EQ(failure, nullptr);
    for (const EvaluationTotals& each : totals) {
      EXPECT_NEAR(each.loss_sum, expected.loss_sum, 0x1p-24 * expected.loss_sum);
      EXPECT_EQ(each.targets, expected.targets);
      EXPECT_EQ(each.correct, expected.correct);
      EXPECT_EQ(each.loss_sum, totals[0].loss_sum);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, Inferences, ::testing::Values("bf16", "f32"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace strata::test

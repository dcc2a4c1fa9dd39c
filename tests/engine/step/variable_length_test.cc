// Sequences of different lengths, of which only some tokens are trained: the gradient of a step is
// that of the mean over its targets, however they are divided into micro-batches, ranks, passes and
// sequences. And steps without any target.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "engine/run/session.h"
#include "tests/engine/data/sample_test.h"
#include "tests/support/engine_run.h"
#include "tests/support/thread_ranks.h"

namespace strata::test {
namespace {

using engine::Options;

constexpr std::int64_t kSeqLen = 40;
constexpr int kDocuments = 16;

// Of 2 to 41 letters, about half of them trained; one that is not trained at all.
std::vector<Document> random_documents() {
  std::mt19937 random(11);
  std::vector<Document> documents;
  for (int d = 0; d < kDocuments; ++d) {
    std::string letters(2 + random() % kSeqLen, 'A');
    for (char& letter : letters) {
      const bool trained = d != 5 && random() % 2 == 0;
      letter = static_cast<char>((trained ? 'a' : 'A') + random() % 26);
    }
    documents.push_back({letters});
  }
  return documents;
}

// An update that shows the gradient g: Adam's first is lr g / (|g| + eps), which is g within
// |g| / eps of it.
constexpr double kEps = 1e4;

Options gradient_options(const TemporaryFolder& folder, const char* model) {
  Options options;
  options.model = model;
  options.data = folder.path("d.bin");
  options.nvme = folder.path();
  options.device_memory = 64 * kMiB;
  options.host_memory = 64 * kMiB;
  options.place = "all=host";
  options.seq_len = kSeqLen;
  options.global_batch = kDocuments;
  options.lr = kEps;
  options.eps = kEps;
  options.weight_decay = 0;
  options.clip_norm = 0;
  options.precision = "f32";
  options.matmul_dtype = "f32";
  options.threads = 1;
  options.from_scratch = true;
  return options;
}

struct Step {
  engine::StepResult result;
  std::vector<float> gradient;  // of all units
  double largest = 0;
};

// One step on all of the data.
Step step_of(const Options& options, int ranks = 1) {
  Step step;
  std::vector<std::vector<std::vector<float>>> shards(static_cast<std::size_t>(ranks));
  std::vector<std::int64_t> elements;
  const auto body = [&](comm::Communicator& comm) {
    const engine::RunSetup setup = make_setup(options, comm);
    const engine::TrainingData data =
        engine::open_training_data(options, setup.model.vocabulary, setup.batch.seq_len);
    EXPECT_EQ(data.train->count(), options.global_batch);
    FailureLatch failure;
    engine::Session session(setup, comm, failure);
    engine::Trainer trainer(setup, session.trainer_parts());
    auto& mine = shards[static_cast<std::size_t>(comm.rank())];
    const auto read = [&](double sign) {
      for (std::size_t u = 0; u < setup.units.size(); ++u) {
        const std::vector<float> master = trainer.master(static_cast<int>(u));
        if (sign > 0) {
          mine.push_back(master);
        } else {
          for (std::size_t i = 0; i < master.size(); ++i) mine[u][i] -= master[i];
        }
      }
    };
    read(1);
    const engine::SampleOrder order(data.train->count(), options.seed);
    const engine::StepResult result = trainer.step(*data.train, order, 0, options.lr);
    read(-1);
    if (comm.rank() != 0) return;
    step.result = result;
    for (const models::UnitSpec& unit : setup.units) elements.push_back(unit.elements);
  };
  for (const std::exception_ptr& failure : ThreadRanks(ranks).run(body)) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
  for (std::size_t u = 0; u < elements.size(); ++u) {
    std::vector<float> unit;
    for (const auto& rank : shards) unit.insert(unit.end(), rank[u].begin(), rank[u].end());
    unit.resize(static_cast<std::size_t>(elements[u]));
    step.gradient.insert(step.gradient.end(), unit.begin(), unit.end());
  }
  for (const float g : step.gradient) step.largest = std::max(step.largest, std::abs(double{g}));
  return step;
}

class VariableLength : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    write_documents(folder_, "d", random_documents(), WithMask::yes);
    expected_ = step_of(options());
    ASSERT_GT(expected_.largest, 1e-3);
  }
  Options options() const { return gradient_options(folder_, GetParam()); }

  // Sums of f32 in other orders: of up to 300 terms, each of which errs by 2^-24 of its size, and
  // the sizes add up to a few times the largest gradient. Reading it from masters below 1 adds
  // 2^-24 for each of two roundings.
  void expect_same(const Step& step) const {
    const double tolerance = 300 * std::ldexp(expected_.largest, -24) + std::ldexp(1.0, -23);
    EXPECT_EQ(step.result.rows.targets, expected_.result.rows.targets);
    EXPECT_EQ(step.result.rows.tokens, expected_.result.rows.tokens);
    EXPECT_NEAR(step.result.loss, expected_.result.loss, 1e-5);
    ASSERT_EQ(step.gradient.size(), expected_.gradient.size());
    double worst = 0;
    for (std::size_t i = 0; i < step.gradient.size(); ++i) {
      worst = std::max(worst, std::abs(double{step.gradient[i]} - expected_.gradient[i]));
    }
    EXPECT_LE(worst, tolerance);
  }

  DataFolder folder_;
  Step expected_;  // one sequence at a time
};

TEST_P(VariableLength, CountsAreThoseOfTheDocuments) {
  std::int64_t targets = 0;
  std::int64_t tokens = 0;
  std::int64_t computed = 0;
  for (const Document& document : random_documents()) {
    const auto rows = std::ssize(document.letters) - 1;
    tokens += rows;
    computed += std::min(round_up(rows, 32), kSeqLen);
    for (const char c : document.letters.substr(1)) targets += c >= 'a';
  }
  EXPECT_EQ(expected_.result.rows.targets, targets);
  EXPECT_EQ(expected_.result.rows.tokens, tokens);
  EXPECT_EQ(expected_.result.rows.computed, computed);
}

TEST_P(VariableLength, AnyMicroBatchPassAndRanksGiveTheSameGradient) {
  for (const std::int64_t micro_batch : {3, 8, 16}) {
    SCOPED_TRACE(micro_batch);
    Options options = this->options();
    options.micro_batch = micro_batch;
    expect_same(step_of(options));
    options.pass = 1;
    expect_same(step_of(options, 2));
  }
}

// Documents beside each other in a sequence do not see each other.
TEST_P(VariableLength, PackingGivesTheSameGradient) {
  Options options = this->options();
  options.pack = true;
  options.global_batch = engine::open_training_data(options, 256, kSeqLen).train->count();
  ASSERT_LT(options.global_batch, kDocuments);
  options.micro_batch = 2;
  expect_same(step_of(options));
  expect_same(step_of(options, 2));
}

INSTANTIATE_TEST_SUITE_P(
    Models, VariableLength,
    ::testing::Values(
        "gpt2:layers=2,hidden=32,heads=4,context=64",
        "llama:layers=2,hidden=32,heads=4,kv-heads=2,intermediate=64,context=64,vocab=256"),
    [](const auto& info) {
      return std::string(info.param).substr(0, 4) == "gpt2" ? "gpt2" : "llama";
    });

// A run of which steps 2 and 4 have no target.
class EmptySteps : public ::testing::TestWithParam<double> {
 protected:
  static constexpr int kSteps = 5;
  static constexpr std::int64_t kBatch = 3;

  EmptySteps() {
    const engine::SampleOrder order(kSteps * kBatch, Options().seed);
    std::vector<Document> documents(kSteps * kBatch);
    for (int step = 0; step < kSteps; ++step) {
      for (std::int64_t s = 0; s < kBatch; ++s) {
        const char letter = step % 2 == 1 ? 'A' : 'a';
        std::string letters(static_cast<std::size_t>(10 + step + s), letter);
        std::iota(letters.begin(), letters.end(), letter);
        documents[static_cast<std::size_t>(order.at(step * kBatch + s))] = {letters};
      }
    }
    write_documents(folder_, "d", documents, WithMask::yes);
  }

  Options options() const {
    Options options = gradient_options(folder_, "gpt2:layers=2,hidden=32,heads=4,context=64");
    options.global_batch = kBatch;
    options.place = "all=nvme";
    options.clip_norm = GetParam();
    options.lr = 1e-3;
    options.eps = 1e-8;
    return options;
  }

  DataFolder folder_;
};

TEST_P(EmptySteps, GoByWithoutAnUpdate) {
  EngineRun run(options());
  for (int step = 0; step < kSteps; ++step) {
    const bool empty = step % 2 == 1;
    const auto before = run.masters();
    const engine::StepResult result = run.step();
    EXPECT_EQ(result.skipped, empty);
    EXPECT_EQ(result.rows.targets == 0, empty);
    EXPECT_EQ(std::isnan(result.loss), empty);
    EXPECT_EQ(run.masters() == before, empty) << "step " << step;
  }
  EXPECT_EQ(run.trainer().progress().updates, 3);
  EXPECT_EQ(run.trainer().progress().skipped_in_a_row, 0);
}

// Committed after every step, and gone on with from every one.
TEST_P(EmptySteps, AreCommittedAndResumed) {
  EngineRun straight(options());
  for (int step = 0; step < kSteps; ++step) straight.step();
  Options durable = options();
  durable.run = folder_.path("run");
  {
    EngineRun run(durable);
    for (int step = 0; step < kSteps; ++step) {
      run.step();
      if (step + 1 < kSteps) run.commit();
    }
    run.commit_now();
    EXPECT_EQ(run.masters(), straight.masters());
  }
  durable.run = folder_.path("stopped");
  for (int step = 0; step < kSteps; ++step) {
    EngineRun run(durable);
    ASSERT_EQ(run.steps_done(), step);
    run.step();
    run.commit_now();
  }
  EngineRun run(durable);
  EXPECT_EQ(run.trainer().progress().updates, 3);
  EXPECT_EQ(run.masters(), straight.masters());
}

INSTANTIATE_TEST_SUITE_P(Updates, EmptySteps, ::testing::Values(1.0, 0.0), [](const auto& info) {
  return info.param > 0 ? "deferred" : "in_backward";
});

}  // namespace
}  // namespace strata::test

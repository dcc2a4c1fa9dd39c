// What comes between steps: evaluation and sampling see every update and change nothing; a step
// whose gradients are not finite is skipped or ends the run.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/base/error.h"
#include "tests/support/engine_run.h"
#include "tests/support/error_text.h"
#include "tests/support/forced_arithmetic.h"
#include "tests/support/set_master.h"

namespace strata::test {
namespace {

using engine::Options;
using engine::StepResult;

constexpr std::int64_t kSequences = 5;  // evaluated

constexpr const char* kGpt2 = "gpt2:layers=2,hidden=32,heads=2,context=16";
constexpr const char* kLlama =
    "llama:layers=2,hidden=32,heads=4,kv-heads=2,intermediate=48,context=16";

struct Case {
  std::string name;
  std::string place;
  const char* model = kGpt2;
};

class Evaluation : public ::testing::TestWithParam<Case> {
 protected:
  Evaluation() { write_text(folder_.path("text.txt"), 8000); }

  // The optimizer is deferred: the defaults clip.
  Options options() const {
    Options options = small_run(folder_, GetParam().model, 32 * kMiB);
    options.val_fraction = 0.2;
    options.place = GetParam().place;
    options.activations = "host";
    options.global_batch = 3;
    options.lr = 3e-3;
    options.matmul_dtype = forced_arithmetic("bf16");
    options.sample_tokens = 1;
    options.threads = 2;
    return options;
  }

  TemporaryFolder folder_;
};

TEST_P(Evaluation, IsThatOfARunThatStopsThere) {
  EngineRun goes_on(options());
  std::vector<double> evaluated{goes_on.evaluate(kSequences)};
  for (int k = 1; k <= 3; ++k) {
    goes_on.step();
    EXPECT_TRUE(goes_on.trainer().update_pending());
    evaluated.push_back(goes_on.evaluate(kSequences));
    EXPECT_FALSE(goes_on.trainer().update_pending());
    EXPECT_NE(evaluated.back(), evaluated[static_cast<std::size_t>(k - 1)]);
  }
  for (int k = 0; k <= 3; ++k) {
    EngineRun stops(options());
    for (int i = 0; i < k; ++i) stops.step();
    stops.trainer().drain();
    EXPECT_FALSE(stops.trainer().update_pending());
    EXPECT_EQ(stops.evaluate(kSequences), evaluated[static_cast<std::size_t>(k)]) << "step " << k;
  }
}

TEST_P(Evaluation, EvaluatingAndSamplingChangeNothing) {
  EngineRun undisturbed(options());
  EngineRun disturbed(options());
  const std::vector<std::int32_t> prompt{'t', 'i', 'e'};
  for (int k = 1; k <= 3; ++k) {
    const StepResult expected = undisturbed.step();
    const StepResult actual = disturbed.step();
    EXPECT_EQ(actual.loss, expected.loss) << "step " << k;
    EXPECT_EQ(actual.grad_norm, expected.grad_norm) << "step " << k;
    const double once = disturbed.evaluate(kSequences);
    disturbed.trainer().restart_sample();
    const auto logits = disturbed.trainer().next_logits(prompt);
    EXPECT_EQ(logits.size(), 256u);
    EXPECT_EQ(disturbed.evaluate(kSequences), once);
  }
  EXPECT_EQ(disturbed.masters(), undisturbed.masters());
}

// The loss is -log softmax of the logits: two ways through the head.
TEST_P(Evaluation, LogitsAgreeWithTheLoss) {
  EngineRun run(options());
  run.step();
  constexpr std::int64_t kTokens = 16;
  std::vector<std::int32_t> window(kTokens + 1);
  const engine::TokenData& file = run.data().file;
  const std::int64_t held_out = file.tokens->tokens() / 5;  // --val-fraction 0.2
  file.tokens->read(file.tokens->tokens() - held_out, window);
  double sum = 0;
  for (std::size_t length = 1; length <= kTokens; ++length) {
    const auto logits = run.trainer().next_logits(std::span(&window[length - 1], 1));
    double total = 0;
    for (const float logit : logits) total += std::exp(double{logit});
    sum += std::log(total) - logits[static_cast<std::size_t>(window[length])];
  }
  // Logits are f32 sums of 32 products, below 3: they err by at most 3 × 32 × 2^-24 = 6e-6.
  EXPECT_NEAR(run.evaluate(1), sum / kTokens, 1e-5);
}

// Two huge gains in the last layer norm: logits overflow, and the loss is not finite.
void break_model(EngineRun& run) {
  const int unit = run.setup().index.final_norm;
  std::vector<float> master = run.trainer().master(unit);
  master[0] = 3e38f;  // about the largest that a split master can hold
  master[1] = 3e38f;
  set_master(run.trainer(), run.session().device(), unit, master);
}

TEST_P(Evaluation, ASkippedStepWritesNothing) {
  Options skipping = options();
  skipping.on_nonfinite = "skip";
  EngineRun run(skipping);
  EngineRun other(skipping);
  run.step();
  other.step();
  const auto good = run.masters();
  break_model(run);
  const auto broken = run.masters();
  const StepResult skipped = run.step();
  EXPECT_TRUE(skipped.skipped);
  EXPECT_FALSE(std::isfinite(skipped.loss) && std::isfinite(skipped.grad_norm));
  EXPECT_FALSE(run.trainer().update_pending());
  EXPECT_EQ(run.masters(), broken);

  // Repaired, it goes on with the next data, as Adam's step 2: like a run that never saw the data
  // of the skipped step.
  const int unit = run.setup().index.final_norm;
  set_master(run.trainer(), run.session().device(), unit, good[static_cast<std::size_t>(unit)]);
  const StepResult after = run.step();
  other.skip_data();
  const StepResult expected = other.step();
  EXPECT_FALSE(after.skipped);
  EXPECT_EQ(after.loss, expected.loss);
  EXPECT_EQ(run.masters(), other.masters());
}

// A model that has diverged is not a bad batch.
TEST_P(Evaluation, ManySkippedStepsInARowEndTheRun) {
  constexpr int kSkipsMax = 20;
  Options skipping = options();
  skipping.on_nonfinite = "skip";
  EngineRun run(skipping);
  const auto good = run.masters();
  break_model(run);
  for (int i = 0; i < kSkipsMax - 1; ++i) ASSERT_TRUE(run.step().skipped);
  // One good step starts the count again.
  const int unit = run.setup().index.final_norm;
  set_master(run.trainer(), run.session().device(), unit, good[static_cast<std::size_t>(unit)]);
  EXPECT_FALSE(run.step().skipped);
  break_model(run);
  const std::string text = error_text<TrainingError>([&] {
    for (int i = 0; i < kSkipsMax; ++i) run.step();
  });
  EXPECT_TRUE(mentions(text, "20 steps in a row")) << text;
}

TEST_P(Evaluation, StopEndsTheRunBeforeAnythingIsWritten) {
  EngineRun run(options());
  run.step();
  break_model(run);
  const auto broken = run.masters();
  const std::string text = error_text<TrainingError>([&] { run.step(); });
  EXPECT_TRUE(mentions(text, "--on-nonfinite skip")) << text;
  EXPECT_TRUE(mentions(text, "after 1 updates")) << text;
  EXPECT_EQ(run.masters(), broken);
}

TEST_P(Evaluation, ALeapOutOfTheDomainEndsTheRun) {
  for (const double clip : {1.0, 0.0}) {
    Options leaping = options();
    leaping.clip_norm = clip;
    EngineRun run(leaping);
    const std::string text = error_text<TrainingError>([&] {
      run.step(3.4e38);
      run.trainer().drain();
    });
    EXPECT_TRUE(mentions(text, "--lr")) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, Evaluation,
                         ::testing::Values(Case{"host", "all=host"}, Case{"nvme", "all=nvme"},
                                           Case{"weights_on_device", "weights=device,moments=nvme"},
                                           Case{"llama_nvme", "all=nvme", kLlama}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::test

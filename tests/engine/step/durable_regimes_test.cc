// Runs with a folder belong to the regime matrix (regime_matrix_test.cc): how often state is
// committed, where a run stops, is lost and goes on, and which tiers, drives and transfers it has
// then must not change one bit of the losses, the gradient norms or the final masters.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/engine/step/regimes.h"

namespace strata::test {
namespace {

using engine::CheckpointInterval;
using engine::Options;

constexpr int kStopStep = 2;

const std::vector<Named>& arithmetics() {
  static const std::vector<Named> kArithmetics = {
      {"deferred", [](Options&) {}},
      {"in_backward_passes",
       [](Options& o) {
         o.clip_norm = 0;
         o.pass = 1;
       }},
      {"llama_deferred", [](Options& o) { o.model = kLlama; }},
  };
  return kArithmetics;
}

const RunResult& reference(const Named& arithmetic) {
  static std::map<std::string, RunResult> kept;
  auto found = kept.find(arithmetic.name);
  if (found == kept.end()) {
    const Options options = options_of(arithmetic, regimes().front());
    found = kept.emplace(arithmetic.name, train(options, kSteps, kValidationSequences)).first;
  }
  return found->second;
}

const Named& regime(const std::string& name) {
  return *std::ranges::find(regimes(), name, &Named::name);
}

class DurableRegimes : public ::testing::TestWithParam<Named> {
 protected:
  Options options(const std::string& name, CheckpointInterval interval = {1, 0}) const {
    return options_in(folder_.path("run"), name, interval);
  }
  Options options_in(const std::string& run, const std::string& name,
                     CheckpointInterval interval = {1, 0}) const {
    Options options = base_options();
    GetParam().edit(options);
    options.run = run;
    options.nvme = folder_.make_folder("drive");
    options.checkpoint_every = interval;
    regime(name).edit(options);  // some need the rest
    return options;
  }
  // Steps after which `commit` is called.
  static void go_on(EngineRun& run, int steps, RunResult& result,
                    const std::function<void()>& commit = {}) {
    for (int i = 0; i < steps; ++i) {
      const engine::StepResult step = run.step();
      result.losses.push_back(step.loss);
      result.grad_norms.push_back(step.grad_norm);
      if (commit) commit();
    }
  }
  static void end(EngineRun& run, RunResult& result) {
    result.validation_loss = run.evaluate(kValidationSequences);
    result.masters = run.masters();
  }
  // Of a run that stops in its middle and one that goes on from there.
  static RunResult resumed(const Options& first, const Options& then) {
    RunResult result;
    {
      EngineRun run(first);
      go_on(run, kStopStep, result);
      run.commit_now();
    }
    EngineRun run(then);
    EXPECT_EQ(run.steps_done(), kStopStep);
    go_on(run, kSteps - kStopStep, result);
    end(run, result);
    return result;
  }

  TemporaryFolder folder_;
};

TEST_P(DurableRegimes, CommitsChangeNoBit) {
  for (const char* name : {"all_nvme", "all_host", "moments_on_device"}) {
    SCOPED_TRACE(name);
    RunResult result;
    EngineRun run(options_in(folder_.path(name), name));
    go_on(run, kSteps, result, [&] { run.commit(); });
    end(run, result);
    EXPECT_EQ(run.durable()->committer().committed_step(), kSteps - 1);
    expect_same_bits(result, reference(GetParam()));
  }
}

TEST_P(DurableRegimes, AStopChangesNoBitWhateverTheTiersThen) {
  const std::vector<std::string> names = {"all_nvme", "all_device", "smallest_budgets",
                                          "moments_on_device", "odd_chunks_mixed"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& first = names[i];
    const std::string& then = names[(i + 1) % names.size()];
    SCOPED_TRACE(first + ", then " + then);
    expect_same_bits(
        resumed(options_in(folder_.path(first), first), options_in(folder_.path(first), then)),
        reference(GetParam()));
  }
}

TEST_P(DurableRegimes, AnotherDriveChangesNoBit) {
  Options moved = options("weights_on_device");
  moved.nvme = folder_.make_folder("other_drive");
  expect_same_bits(resumed(options("small_chunks_nvme"), moved), reference(GetParam()));
}

TEST_P(DurableRegimes, ARunWithoutCheckpointsGoesOnFromItsStop) {
  expect_same_bits(resumed(options("all_nvme", {}), options("weights_on_device", {})),
                   reference(GetParam()));
}

// The third step, which is not committed, is lost and trained again.
TEST_P(DurableRegimes, ALostStepChangesNoBit) {
  RunResult result;
  {
    EngineRun run(options("weights_on_device"));
    go_on(run, kStopStep, result, [&] { run.commit(); });
    run.step();
    run.trainer().drain();
  }
  EngineRun run(options("all_nvme"));
  ASSERT_EQ(run.steps_done(), kStopStep);
  go_on(run, kSteps - kStopStep, result, [&] { run.commit(); });
  end(run, result);
  expect_same_bits(result, reference(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(All, DurableRegimes, ::testing::ValuesIn(arithmetics()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::test

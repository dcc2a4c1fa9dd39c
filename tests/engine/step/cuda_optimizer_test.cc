// Updates that a GPU makes of state that it holds, on the simulated device: the bits of those that
// the processors make of the same state in host memory, without moving it; and the same errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/engine/step/regimes.h"
#include "tests/support/error_text.h"

namespace strata::test {
namespace {

using engine::Options;
using engine::StepResult;
using offload::Link;
using offload::MovedKind;
using offload::Tier;

// Without what a context takes, so that budgets are those of other tests.
class OnGpu {
 public:
  OnGpu() : comm_(comm::make_single_rank_communicator()), ranks_{*comm_, failure_, {}, device()} {}
  const engine::Ranks& ranks() const { return ranks_; }

 private:
  static engine::RankDevice device() {
    const CudaBackend backend(STRATA_SIMULATED_BACKEND);
    Gpu gpu = backend.open_gpu(0);
    gpu.context_bytes = 0;
    return {engine::RankGpu{backend, gpu}, ""};
  }
  FailureLatch failure_;
  std::unique_ptr<comm::Communicator> comm_;
  engine::Ranks ranks_;
};

Options options_of(const Edit& edit, const std::string& place) {
  Options options = base_options();
  options.model = "gpt2:layers=2,hidden=32,heads=2,context=32";
  options.matmul_dtype = "auto";
  edit(options);
  placed(place, "device")(options);
  return options;
}

// So that the last block of a shard may be a short one.
constexpr std::int64_t kBlockElements = 2 * offload::kShardAlignmentElements;

// Every step moves what its plan says.
RunResult train_accounted(const Options& options) {
  const OnGpu gpu;
  EngineRun run(options, gpu.ranks(), kBlockElements);
  const bool deferred = run.plan().update == offload::UpdateTime::deferred;
  RunResult result;
  for (int i = 0; i < kSteps; ++i) {
    const StepResult step = run.step();
    result.losses.push_back(step.loss);
    result.grad_norms.push_back(step.grad_norm);
    offload::Traffic moved = step.traffic;
    if (deferred) {
      run.trainer().drain();
      moved += run.trainer().update_traffic();
    }
    EXPECT_EQ(moved, run.plan().step_traffic()) << "step " << i;
  }
  result.validation_loss = run.evaluate(kValidationSequences);
  result.masters = run.masters();
  return result;
}

std::int64_t units_updated_there(const offload::Plan& plan) {
  return std::ranges::count_if(plan.units, &offload::UnitPlan::updated_on_device);
}

class CudaOptimizer : public ::testing::TestWithParam<Named> {};

TEST_P(CudaOptimizer, UpdatesWhereStateLiesWithTheBitsOfTheHost) {
  const Edit& edit = GetParam().edit;
  const OnGpu gpu;
  const Options device = options_of(edit, "all=device");
  const auto plan_of = [&](const Options& options) {
    return make_setup(options, gpu.ranks(), kBlockElements).plan;
  };
  const offload::Plan plan = plan_of(device);
  const auto trained = std::ranges::count(plan.units, false, &offload::UnitPlan::frozen);
  EXPECT_EQ(units_updated_there(plan), trained);
  const offload::Traffic traffic = plan.step_traffic();
  for (const offload::StateKind kind : offload::kLastingKinds) {
    EXPECT_EQ(traffic.bytes(Link::to_device, offload::moved(kind)), 0);
    EXPECT_EQ(traffic.bytes(Link::from_device, offload::moved(kind)), 0);
  }
  const RunResult expected = train_accounted(options_of(edit, "all=host"));
  expect_same_bits(train_accounted(device), expected);
  // One page short, some unit is updated by the processors, which stage its state or have it all.
  for (const auto& [place, homes] :
       {std::pair("weights=device", offload::Homes::tiers), std::pair("", offload::Homes::units)}) {
    SCOPED_TRACE(place);
    Options most = options_of(edit, place);
    most.device_memory = plan.total_bytes(Tier::device) - 4096;
    const offload::Plan some = plan_of(most);
    EXPECT_EQ(some.homes, homes);
    EXPECT_LT(units_updated_there(some), trained);
    EXPECT_GT(units_updated_there(some), 0);
    expect_same_bits(train_accounted(most), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Arithmetics, CudaOptimizer,
    ::testing::Values(Named{"adam_bf16_gradients_of_three_passes",
                            [](Options& o) {
                              o.optimizer = "adam";
                              o.grad_dtype = "bf16";
                              o.pass = 1;
                            }},
                      Named{"f32_in_two_passes",
                            [](Options& o) {
                              o.precision = "f32";
                              o.pass = 2;
                            }},
                      Named{"bf16_gradients_in_backward",
                            [](Options& o) {
                              o.model = "llama:layers=2,hidden=32,heads=2,context=32";
                              o.grad_dtype = "bf16";
                              o.moments = "bf16";
                              o.clip_norm = 0;
                            }},
                      Named{"lion_int8_in_backward",
                            [](Options& o) {
                              o.optimizer = "lion";
                              o.moments = "int8";
                              o.clip_norm = 0;
                            }},
                      Named{"partly_frozen",
                            [](Options& o) {
                              o.moments = "int8";
                              o.lr_scale = {"h.1.*=0", "h.0.attn*=0", "*.bias=0.5"};
                            }}),
    [](const auto& info) { return info.param.name; });

struct Failing {
  std::string name;
  double learning_rate;  // of the first step
  double clip_norm;
  std::string on_nonfinite;
  std::string outcome;
};

// What the second step and the first one's update come to.
std::string outcome_of(const Failing& failing, const std::string& place) {
  const OnGpu gpu;
  const auto edit = [&](Options& o) {
    o.lr = 3e-3;
    o.clip_norm = failing.clip_norm;
    o.on_nonfinite = failing.on_nonfinite;
  };
  EngineRun run(options_of(edit, place), gpu.ranks());
  try {
    run.step(failing.learning_rate);
    const bool skipped = run.step().skipped;
    return skipped ? "skipped" : "went on";
  } catch (const Error& error) {
    return error.what();
  }
}

class CudaFailing : public ::testing::TestWithParam<Failing> {};

TEST_P(CudaFailing, EndsAsOnTheHost) {
  const std::string there = outcome_of(GetParam(), "all=device");
  EXPECT_PRED2(mentions, there, GetParam().outcome);
  EXPECT_EQ(there, outcome_of(GetParam(), "all=host"));
}

INSTANTIATE_TEST_SUITE_P(
    Steps, CudaFailing,
    ::testing::Values(Failing{"leaves_the_domain", 3e38, 1, "stop",
                              "at step 1 left the range of finite weights"},
                      Failing{"leaves_the_domain_in_backward", 3e38, 0, "stop",
                              "at step 1 left the range of finite weights"},
                      Failing{"is_not_finite", 1e30, 1, "stop", "the gradient norm"},
                      Failing{"is_not_finite_and_skipped", 1e30, 1, "skip", "skipped"},
                      Failing{"is_not_finite_in_backward", 1e30, 0, "stop", "is not finite"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::test

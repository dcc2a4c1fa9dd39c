// The regime matrix (regime_matrix_test.cc) on GPUs, which are the simulated device: on one rank
// and on two, with NCCL's collectives between them, where state lives and how it moves must not
// change one bit. Between rank counts, and between GPUs and processors, sums have another order:
// there losses agree within its rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/step/regimes.h"
#include "tests/support/rank_runs.h"

namespace strata::test {
namespace {

using engine::Options;
using engine::RankDevice;
using engine::Ranks;

constexpr int kRankCounts[] = {1, 2};
constexpr int kFewSteps = 3;  // a simulated GPU is slow
constexpr int kSeqLen = 16;

// Budgets are those of the other matrix: without what a context takes.
const RankDevice& gpu() {
  static const RankDevice kGpu = [] {
    const CudaBackend backend(STRATA_SIMULATED_BACKEND);
    Gpu opened = backend.open_gpu(0);
    opened.context_bytes = 0;
    return RankDevice{engine::RankGpu{backend, opened}, ""};
  }();
  return kGpu;
}

// The tolerance is of losses, relative to the cpu device's: f32 rounds by 6e-8, and a sum of 1e3
// terms is off by less than 1e-4 of it; bf16 rounds each of the few activations on a path by up to
// 4e-3.
struct Arithmetic {
  Named options;
  double tolerance;
};

// The first runs in every regime, the others in these: NVMe, the smallest budgets, a mix.
constexpr std::size_t kFewRegimes[] = {2, 3, 5};
const std::vector<Arithmetic>& arithmetics() {
  static const std::vector<Arithmetic> kArithmetics = {
      {{"deferred", [](Options&) {}}, 2e-2},
      {{"f32_in_backward",
        [](Options& o) {
          o.precision = "f32";
          o.clip_norm = 0;
        }},
       1e-4},
      {{"llama_int8_passes",
        [](Options& o) {
          o.model = kLlama;
          o.moments = "int8";
          o.pass = 1;
        }},
       2e-2},
      {{"qwen3_bf16_gradients_in_backward",
        [](Options& o) {
          o.model = kQwen3;
          o.moments = "bf16";
          o.grad_dtype = "bf16";
          o.clip_norm = 0;
        }},
       2e-2},
  };
  return kArithmetics;
}
constexpr std::size_t kF32 = 1;

// On a GPU that has room for some of the units.
const Named kSomeUnits{"some_units", placed("", "host")};

Options options_for(const Named& arithmetic, const Named& regime, const Ranks& ranks) {
  Options options = base_options();
  options.matmul_dtype = "auto";
  options.seq_len = kSeqLen;
  options.host_memory = *options.host_memory * ranks.comm.world_size();
  arithmetic.edit(options);
  if (regime.name == "smallest_budgets") {
    take_smallest_budgets(options, ranks);
  } else {
    regime.edit(options);
  }
  if (regime.name == kSomeUnits.name) {
    const auto device_bytes = [&](const char* place) {
      Options placed = options;
      placed.place = place;
      return make_setup(placed, ranks).plan.total_bytes(offload::Tier::device);
    };
    options.device_memory = (device_bytes("all=host") + device_bytes("all=device")) / 2;
    EXPECT_EQ(make_setup(options, ranks).plan.homes, offload::Homes::units);
  }
  return options;
}

RunResult train_on(const RankDevice& device, int world_size, const Named& arithmetic,
                   const Named& regime) {
  std::vector<RunResult> results(static_cast<std::size_t>(world_size));
  run_ranks(world_size, device, [&](const Ranks& ranks) {
    EngineRun run(options_for(arithmetic, regime, ranks), ranks);
    results[static_cast<std::size_t>(ranks.comm.rank())] =
        result_of(run, kFewSteps, kValidationSequences);
  });
  return joined(results);
}

const RunResult& reference(int world_size, const Named& arithmetic) {
  static std::map<std::pair<int, std::string>, RunResult> kept;
  const auto [found, is_new] = kept.try_emplace({world_size, arithmetic.name});
  if (is_new) found->second = train_on(gpu(), world_size, arithmetic, regimes().front());
  return found->second;
}

void expect_close(const RunResult& actual, const RunResult& expected, double tolerance) {
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(actual.losses[i], expected.losses[i], tolerance) << "step " << i;
  }
  EXPECT_NEAR(actual.validation_loss.value(), expected.validation_loss.value(), tolerance);
}

struct Case {
  int world_size;
  Named arithmetic;
  Named regime;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int world_size : kRankCounts) {
    for (std::size_t r = 1; r < regimes().size(); ++r) {
      all.push_back({world_size, arithmetics()[0].options, regimes()[r]});
    }
    all.push_back({world_size, arithmetics()[0].options, kSomeUnits});
    for (std::size_t a = 1; a < arithmetics().size(); ++a) {
      for (const std::size_t r : kFewRegimes) {
        all.push_back({world_size, arithmetics()[a].options, regimes()[r]});
      }
    }
  }
  return all;
}

class CudaRegimes : public ::testing::TestWithParam<Case> {};

TEST_P(CudaRegimes, SameBits) {
  const auto& [world_size, arithmetic, regime] = GetParam();
  expect_same_bits(train_on(gpu(), world_size, arithmetic, regime),
                   reference(world_size, arithmetic));
}

INSTANTIATE_TEST_SUITE_P(All, CudaRegimes, ::testing::ValuesIn(cases()), [](const auto& info) {
  const Case& it = info.param;
  return fmt::format("{}_ranks_{}_{}", it.world_size, it.arithmetic.name, it.regime.name);
});

class CudaArithmetic : public ::testing::TestWithParam<Arithmetic> {};

TEST_P(CudaArithmetic, LearnsAsTheCpuDeviceDoes) {
  const auto& [options, tolerance] = GetParam();
  for (const int world_size : kRankCounts) {
    SCOPED_TRACE(world_size);
    const RunResult& result = reference(world_size, options);
    EXPECT_LT(result.losses.back(), result.losses.front() - 0.1);
    const RunResult cpu = train_on({}, world_size, options, regimes()[1]);
    expect_close(result, cpu, tolerance * cpu.losses.front());
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaArithmetic, ::testing::ValuesIn(arithmetics()),
                         [](const auto& info) { return info.param.options.name; });

// As in ranks_test.cc: the f32 gradients of the step's 80 tokens are added in another order, a
// relative error of at most 80 x 2^-24, which moves the loss by up to 2 lr sqrt(parameters) times
// the gradient's error a step. A sequence that is lost or counted twice changes it by 1e-2.
TEST(CudaRanks, TwoTrainAsOne) {
  const Named& f32 = arithmetics()[kF32].options;
  const RunResult& one = reference(1, f32);
  double parameters = 0;
  for (const auto& unit : one.masters) parameters += static_cast<double>(unit.size());
  const double gradient_error = 80 * std::exp2(-24) * std::ranges::max(one.grad_norms);
  const double tolerance =
      kFewSteps * 2 * base_options().lr * std::sqrt(parameters) * gradient_error;
  EXPECT_LT(tolerance, 2e-3);
  expect_close(reference(2, f32), one, tolerance);
}

class CudaResume : public ::testing::TestWithParam<int> {};

TEST_P(CudaResume, AStopChangesNoBitWhateverTheTiersThen) {
  const int world_size = GetParam();
  const Named& arithmetic = arithmetics()[0].options;
  constexpr int kStopStep = 2;
  const TemporaryFolder folder;
  std::vector<RunResult> results(static_cast<std::size_t>(world_size));
  const auto train_until = [&](const Ranks& ranks, const std::string& regime, int step) {
    Options options =
        options_for(arithmetic, *std::ranges::find(regimes(), regime, &Named::name), ranks);
    options.run = folder.path("run");
    EngineRun run(options, ranks);
    RunResult& result = results[static_cast<std::size_t>(ranks.comm.rank())];
    while (run.steps_done() < step) {
      const engine::StepResult done = run.step();
      result.losses.push_back(done.loss);
      result.grad_norms.push_back(done.grad_norm);
    }
    if (step < kFewSteps) return run.commit_now();
    result.validation_loss = run.evaluate(kValidationSequences);
    result.masters = run.masters();
  };
  run_ranks(world_size, gpu(),
            [&](const Ranks& ranks) { train_until(ranks, "moments_on_device", kStopStep); });
  run_ranks(world_size, gpu(),
            [&](const Ranks& ranks) { train_until(ranks, "all_nvme", kFewSteps); });
  expect_same_bits(joined(results), reference(world_size, arithmetic));
}

INSTANTIATE_TEST_SUITE_P(Ranks, CudaResume, ::testing::ValuesIn(kRankCounts));

}  // namespace
}  // namespace strata::test

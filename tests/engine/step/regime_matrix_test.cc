// The regime matrix: where state lives, how far ahead it is read, how it is cut into transfers,
// what is recomputed and how many threads work must not change one bit of the losses, the gradient
// norms or the final masters. (optimizer_matrix_test.cc: with every optimizer.)
//
// What is arithmetic, or orders its sums, may change them, and has a reference of its own: the
// model, the dtypes, clipping, --pass.
#include <gtest/gtest.h>

#include <map>

#include "kernels/base/error.h"
#include "tests/engine/step/regimes.h"

namespace strata::test {
namespace {

using engine::Options;
using offload::StateKind;
using offload::Tier;

// These may differ from one another; within one, every regime must agree. The first kThorough run
// in every regime.
constexpr std::size_t kThorough = 4;
const std::vector<Named>& arithmetics() {
  static const std::vector<Named> kArithmetics = {
      {"deferred", [](Options&) {}},
      {"in_backward", [](Options& o) { o.clip_norm = 0; }},
      {"llama_deferred", [](Options& o) { o.model = kLlama; }},
      {"llama_in_backward",
       [](Options& o) {
         o.model = kLlama;
         o.clip_norm = 0;
       }},
      {"deferred_passes", [](Options& o) { o.pass = 2; }},
      {"in_backward_passes",
       [](Options& o) {
         o.clip_norm = 0;
         o.pass = 1;
       }},
      {"deferred_f32",
       [](Options& o) {
         o.precision = "f32";
         o.matmul_dtype = "f32";
       }},
      {"in_backward_f32",
       [](Options& o) {
         o.precision = "f32";
         o.matmul_dtype = "f32";
         o.clip_norm = 0;
       }},
      {"deferred_bf16_gradients", [](Options& o) { o.grad_dtype = "bf16"; }},
      {"in_backward_bf16_gradients",
       [](Options& o) {
         o.grad_dtype = "bf16";
         o.clip_norm = 0;
       }},
      {"deferred_bf16_gradients_passes",
       [](Options& o) {
         o.grad_dtype = "bf16";
         o.pass = 2;
       }},
      {"deferred_widened", [](Options& o) { o.matmul_dtype = "f32"; }},
      {"llama_deferred_passes",
       [](Options& o) {
         o.model = kLlama;
         o.pass = 2;
       }},
      {"qwen3_deferred", [](Options& o) { o.model = kQwen3; }},
      {"qwen3_in_backward_passes",
       [](Options& o) {
         o.model = kQwen3;
         o.clip_norm = 0;
         o.pass = 1;
       }},
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

struct Case {
  Named arithmetic;
  Named regime;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (std::size_t a = 0; a < arithmetics().size(); ++a) {
    const std::size_t count = a < kThorough ? regimes().size() : kEssentialRegimes;
    for (std::size_t r = 1; r < count; ++r) all.push_back({arithmetics()[a], regimes()[r]});
  }
  return all;
}

class RegimeMatrix : public ::testing::TestWithParam<Case> {};

TEST_P(RegimeMatrix, SameBits) {
  const Options options = options_of(GetParam().arithmetic, GetParam().regime);
  expect_same_bits(train(options, kSteps, kValidationSequences), reference(GetParam().arithmetic));
}

INSTANTIATE_TEST_SUITE_P(All, RegimeMatrix, ::testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.arithmetic.name + "_" + info.param.regime.name;
});

// That the matrix compares what it says: the model learns, and records really move.
TEST(RegimeMatrixSetup, TheReferenceLearns) {
  for (const Named& arithmetic : arithmetics()) {
    const RunResult& result = reference(arithmetic);
    EXPECT_LT(result.losses.back(), result.losses.front() - 0.1) << arithmetic.name;
  }
}

TEST(RegimeMatrixSetup, TiersAndRecordsAreUsed) {
  const auto comm = comm::make_single_rank_communicator();
  Options options = options_of(arithmetics()[0], regimes()[3]);  // smallest budgets
  const offload::Plan plan = make_setup(options, *comm).plan;
  EXPECT_EQ(plan.activations, Tier::nvme);
  EXPECT_EQ(plan.total_bytes(Tier::device), *options.device_memory);
  EXPECT_EQ(plan.total_bytes(Tier::host), *options.host_memory);
  int loads = 0;
  int stores = 0;
  for (const offload::ScheduledAccess& access : plan.accesses) {
    loads += access.load;
    stores += access.store;
  }
  EXPECT_GE(loads, 6);
  EXPECT_GE(stores, 6);
  for (const offload::UnitPlan& unit : plan.units) {
    EXPECT_EQ(unit.tier(StateKind::moment1), Tier::nvme) << unit.name;
  }
  options.device_memory = *options.device_memory - 1;
  EXPECT_THROW(make_setup(options, *comm), OutOfBudget);
}

// A deferred update without clipping scales by one: the same numbers as an update in backward.
TEST(RegimeMatrixSetup, DeferredWithoutClippingIsTheUpdateInBackward) {
  for (const std::size_t regime : {0, 2, 4}) {
    Options options = options_of(arithmetics()[1], regimes()[regime]);
    options.on_nonfinite = "skip";  // waits for the norm
    expect_same_bits(train(options, kSteps, kValidationSequences), reference(arithmetics()[1]));
  }
}

// The size of a pass orders sums only where it divides the step: three micro-batches are one pass
// of three and of any larger size.
TEST(RegimeMatrixSetup, PassesOfAllMicroBatchesAreOnePass) {
  for (const int pass : {3, 100}) {
    Options options = options_of(arithmetics()[0], regimes()[2]);
    options.pass = pass;
    expect_same_bits(train(options, kSteps, kValidationSequences), reference(arithmetics()[0]));
  }
}

// A token table of two units: tied, each with contributions from the head and from the embedding;
// or with a head of its own, of two units too.
struct Chunked {
  std::string name;
  std::string model;
  double clip_norm;
};

class TableChunks : public ::testing::TestWithParam<Chunked> {
 protected:
  static Options options(const std::string& place, const std::string& activations) {
    Options options = base_options();
    options.model = GetParam().model + ":layers=1,hidden=128,heads=2,context=16,vocab=" +
                    std::to_string(Files::kLargeVocabulary);
    options.data = files().tokens();
    options.val_fraction = 0;
    options.global_batch = 3;
    options.micro_batch = 1;
    options.device_memory = 256 * kMiB;
    options.host_memory = 256 * kMiB;
    options.prefetch = 1;
    options.clip_norm = GetParam().clip_norm;
    placed(place, activations)(options);
    return options;
  }
};

TEST_P(TableChunks, SameBits) {
  constexpr int kFewSteps = 2;
  EngineRun run(options("all=host", "device"));
  ASSERT_EQ(run.setup().index.token_chunks.size(), 2u);
  ASSERT_EQ(run.setup().index.head_chunks.size(), 2u);
  ASSERT_EQ(run.setup().index.tied(), GetParam().model == "gpt2");
  const RunResult expected = result_of(run, kFewSteps, 0);
  expect_same_bits(
      train(options("weights=device,moments=host,gradients=nvme", "nvme"), kFewSteps, 0), expected);
  expect_same_bits(train(options("weights=nvme,moments=device", "host"), kFewSteps, 0), expected);
}

INSTANTIATE_TEST_SUITE_P(Heads, TableChunks,
                         ::testing::Values(Chunked{"tied_deferred", "gpt2", 1},
                                           Chunked{"tied_in_backward", "gpt2", 0},
                                           Chunked{"untied_deferred", "llama", 1},
                                           Chunked{"untied_in_backward", "llama", 0}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::test

// The regime matrix: where state lives, how far ahead it is read, how it is cut into transfers,
// what is recomputed and how many threads work must not change one bit of the losses, the gradient
// norms or the final masters.
//
// What is arithmetic, or orders its sums, may change them, and has a reference of its own: the
// dtypes, clipping, --pass.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "kernels/base/error.h"
#include "tests/support/engine_run.h"

namespace strata::test {
namespace {

using engine::Options;
using offload::StateKind;
using offload::Tier;

constexpr int kSteps = 4;
constexpr std::int64_t kValidationSequences = 5;

class Files {
 public:
  Files() {
    write_text(folder_.path("text.txt"), 20000);
    write_tokens(folder_.path("tokens.bin"), 400, kLargeVocabulary);
  }
  static constexpr std::uint32_t kLargeVocabulary = 33000;
  std::string text() const { return folder_.path("text.txt"); }
  std::string tokens() const { return folder_.path("tokens.bin"); }
  std::string nvme() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

const Files& files() {
  static const Files kFiles;
  return kFiles;
}

// Five sequences in micro-batches of two: three per step, the last one smaller.
Options base_options() {
  Options options;
  options.model = "gpt2:layers=3,hidden=48,heads=3,context=32";
  options.data = files().text();
  options.val_fraction = 0.1;
  options.nvme = files().nvme();
  options.device_memory = 48 * kMiB;
  options.host_memory = 48 * kMiB;
  options.global_batch = 5;
  options.micro_batch = 2;
  options.lr = 3e-3;
  options.matmul_dtype = "bf16";  // forced: no timing decides
  options.threads = 2;
  return options;
}

using Edit = std::function<void(Options&)>;
struct Named {
  std::string name;
  Edit edit;
};

Edit placed(const std::string& place, const std::string& activations) {
  return [=](Options& o) {
    o.place = place;
    o.activations = activations;
  };
}

// These may differ from one another; within one, every regime must agree.
const std::vector<Named>& arithmetics() {
  static const std::vector<Named> kArithmetics = {
      {"deferred", [](Options&) {}},
      {"in_backward", [](Options& o) { o.clip_norm = 0; }},
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
  };
  return kArithmetics;
}

// The first is the reference. Those up to kEssentialRegimes run with every arithmetic.
constexpr std::size_t kEssentialRegimes = 6;
const std::vector<Named>& regimes() {
  static const std::vector<Named> kRegimes = {
      {"all_device", placed("all=device", "device")},
      {"all_host", placed("all=host", "host")},
      {"all_nvme", placed("all=nvme", "nvme")},
      {"smallest_budgets",
       [](Options& o) {
         placed("all=nvme", "nvme")(o);
         o.prefetch = 0;
         o = with_smallest_budgets(o);
         placed("", "auto")(o);
       }},
      {"weights_on_device", placed("weights=device,moments=nvme,gradients=nvme", "host")},
      {"moments_on_device",
       placed("weights=nvme,remainder=host,moments=device,gradients=device", "nvme")},
      {"automatic", [](Options&) {}},
      {"gradients_on_nvme", placed("weights=host,moments=host,gradients=nvme", "device")},
      {"remainder_on_device",
       placed("weights=nvme,remainder=device,moments=host,gradients=host", "host")},
      {"host_then_nvme_activations", placed("all=host", "nvme")},
      {"prefetch_0",
       [](Options& o) {
         placed("all=nvme", "nvme")(o);
         o.prefetch = 0;
       }},
      {"prefetch_1",
       [](Options& o) {
         placed("all=nvme", "nvme")(o);
         o.prefetch = 1;
       }},
      {"prefetch_4",
       [](Options& o) {
         placed("all=nvme", "nvme")(o);
         o.prefetch = 4;
       }},
      {"prefetch_0_host",
       [](Options& o) {
         placed("all=host", "host")(o);
         o.prefetch = 0;
       }},
      {"no_recompute_device",
       [](Options& o) {
         placed("all=device", "device")(o);
         o.recompute = false;
       }},
      {"no_recompute_host",
       [](Options& o) {
         placed("all=host", "host")(o);
         o.recompute = false;
       }},
      {"no_recompute_nvme",
       [](Options& o) {
         placed("all=nvme", "nvme")(o);
         o.recompute = false;
         o.prefetch = 4;
       }},
      {"one_thread_device",
       [](Options& o) {
         placed("all=device", "device")(o);
         o.threads = 1;
       }},
      {"one_thread_nvme",
       [](Options& o) {
         placed("all=nvme", "nvme")(o);
         o.threads = 1;
       }},
      {"small_chunks_nvme",
       [](Options& o) {
         placed("all=nvme", "nvme")(o);
         o.chunk_size = 16 * kKiB;
       }},
      {"odd_chunks_mixed",
       [](Options& o) {
         placed("weights=device,moments=nvme", "host")(o);
         o.chunk_size = 48 * kKiB;
       }},
  };
  return kRegimes;
}

Options options_of(const Named& arithmetic, const Named& regime) {
  Options options = base_options();
  arithmetic.edit(options);
  regime.edit(options);
  return options;
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

void expect_same_bits(const RunResult& actual, const RunResult& expected) {
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.grad_norms, expected.grad_norms);
  EXPECT_EQ(actual.validation_loss, expected.validation_loss);
  ASSERT_EQ(actual.masters.size(), expected.masters.size());
  for (std::size_t u = 0; u < expected.masters.size(); ++u) {
    EXPECT_TRUE(actual.masters[u] == expected.masters[u]) << "unit " << u;
  }
}

struct Case {
  Named arithmetic;
  Named regime;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (std::size_t a = 0; a < arithmetics().size(); ++a) {
    const std::size_t count = a < 2 ? regimes().size() : kEssentialRegimes;
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
  const offload::Plan plan =
      engine::make_run_setup(options, comm->topology(), comm->staging_bytes()).plan;
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
  EXPECT_THROW(engine::make_run_setup(options, comm->topology(), comm->staging_bytes()),
               OutOfBudget);
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

// A token table of two units, each with contributions from the head and from the embedding.
class TableChunks : public ::testing::TestWithParam<double> {
 protected:
  static Options options(const std::string& place, const std::string& activations) {
    Options options = base_options();
    options.model = "gpt2:layers=1,hidden=128,heads=2,context=16,vocab=" +
                    std::to_string(Files::kLargeVocabulary);
    options.data = files().tokens();
    options.val_fraction = 0;
    options.global_batch = 3;
    options.micro_batch = 1;
    options.device_memory = 256 * kMiB;
    options.host_memory = 256 * kMiB;
    options.prefetch = 1;
    options.clip_norm = GetParam();
    placed(place, activations)(options);
    return options;
  }
};

TEST_P(TableChunks, SameBits) {
  constexpr int kFewSteps = 2;
  EngineRun run(options("all=host", "device"));
  ASSERT_EQ(run.setup().index.token_chunks.size(), 2u);
  const RunResult expected = result_of(run, kFewSteps, 0);
  expect_same_bits(
      train(options("weights=device,moments=host,gradients=nvme", "nvme"), kFewSteps, 0), expected);
  expect_same_bits(train(options("weights=nvme,moments=device", "host"), kFewSteps, 0), expected);
}

INSTANTIATE_TEST_SUITE_P(DeferredAndInBackward, TableChunks, ::testing::Values(1.0, 0.0));

}  // namespace
}  // namespace strata::test

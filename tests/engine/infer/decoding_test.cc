// Decoding through the tiers: the losses that the full forward has of the same weights, the same
// bits from every tier, and what the plan says.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "engine/infer/inference.h"
#include "tests/support/engine_run.h"
#include "tests/support/forced_arithmetic.h"

namespace strata::test {
namespace {

using engine::Inference;
using engine::Options;
using engine::Purpose;
using engine::RunSetup;
using engine::Session;
using offload::Tier;

using Logits = std::vector<std::vector<float>>;  // of each position

RunSetup decoding_setup(const Options& options, comm::Communicator& comm) {
  return engine::make_run_setup(options, comm.topology(), comm.staging_bytes(),
                                offload::kShardAlignmentElements, Purpose::inference);
}

struct Machine {
  explicit Machine(const Options& options)
      : comm(comm::make_single_rank_communicator()),
        setup(decoding_setup(options, *comm)),
        session(setup, *comm, failure),
        inference(setup, session.trainer_parts()) {}

  // After the first piece, and then after each of the other tokens.
  Logits decode(std::span<const std::int32_t> tokens, std::size_t first_piece) {
    Logits all;
    const auto keep = [&](std::span<const float> logits) {
      all.emplace_back(logits.begin(), logits.end());
    };
    keep(inference.next_logits(tokens.first(first_piece)));
    for (std::size_t i = first_piece; i < tokens.size(); ++i) {
      keep(inference.next_logits(tokens.subspan(i, 1)));
    }
    return all;
  }

  std::unique_ptr<comm::Communicator> comm;
  FailureLatch failure;
  RunSetup setup;
  Session session;
  Inference inference;
};

constexpr std::int64_t kContext = 32;
// Every family; a window and heads wider than C / H among them.
constexpr const char* kModels[] = {
    "gpt2:layers=3,hidden=48,heads=3,context=32",
    "llama:layers=3,hidden=48,heads=6,kv-heads=2,intermediate=80,context=32",
    "mistral:layers=3,hidden=48,heads=4,kv-heads=2,head-dim=20,window=7,context=32,tied=yes",
    "qwen2:layers=3,hidden=48,heads=6,kv-heads=1,context=32",
    "qwen3:layers=3,hidden=48,heads=4,kv-heads=2,head-dim=20,context=32",
};

class Decoding : public ::testing::TestWithParam<const char*> {
 protected:
  Decoding() { write_text(folder_.path("text.txt"), 2000); }

  Options options(const std::string& precision) const {
    Options options = small_run(folder_, GetParam(), 32 * kMiB);
    options.from_scratch = true;
    options.val_fraction = 0.4;
    options.prompt_ids = "97,98,99";
    options.max_tokens = 1000;
    options.precision = precision;
    options.matmul_dtype = forced_arithmetic(precision);
    options.threads = 2;
    return options;
  }
  static std::vector<std::int32_t> tokens() {
    std::vector<std::int32_t> tokens(kContext);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(i * i * 7 % 256);
    }
    return tokens;
  }

  TemporaryFolder folder_;
};

// The loss is -log softmax of the logits, and the evaluation computes it from the full forward, of
// the first sequence of the data.
TEST_P(Decoding, LogitsHaveTheLossOfTheFullForward) {
  Machine machine(options("f32"));
  const auto data = engine::open_training_data(machine.setup.options, 256, kContext);
  std::vector<std::int32_t> window(kContext + 1);
  const std::int64_t all = data.file.tokens->tokens();
  data.file.tokens->read(all - all * 4 / 10, window);
  const engine::EvaluationTotals expected = machine.inference.evaluate(*data.validation, 1);
  ASSERT_EQ(expected.targets, kContext);

  const Logits logits = machine.decode(std::span(window).first(kContext), 1);
  double loss = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    double total = 0;
    for (const float logit : logits[i]) total += std::exp(double{logit});
    loss += std::log(total) - logits[i][static_cast<std::size_t>(window[i + 1])];
  }
  // Logits are f32 sums of 48 products, below 3, of rows that are sums themselves: each errs by at
  // most some 3 × 48 × 2^-24 = 9e-6.
  EXPECT_NEAR(loss / kContext, expected.loss(), 1e-5);
}

// One piece, or token by token: f32 sums in other orders, as above.
TEST_P(Decoding, PiecesAgree) {
  Machine whole(options("f32"));
  Machine parts(options("f32"));
  const Logits by_token = parts.decode(tokens(), 1);
  for (const std::size_t first : {kContext, std::int64_t{20}}) {
    Machine machine(options("f32"));
    const Logits logits = machine.decode(tokens(), first);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const std::vector<float>& expected = by_token[by_token.size() - logits.size() + i];
      for (std::size_t t = 0; t < expected.size(); ++t) {
        ASSERT_NEAR(logits[i][t], expected[t], 1e-5) << "first piece " << first << ", token " << t;
      }
    }
  }
}

TEST_P(Decoding, HasTheSameBitsFromEveryTier) {
  for (const std::string precision : {"f32", "bf16"}) {
    Options reference = options(precision);
    reference.place = "weights=device";
    const Logits expected = Machine(reference).decode(tokens(), 9);
    for (const std::string tier : {"host", "nvme"}) {
      for (const int prefetch : {0, 2}) {
        Options placed = options(precision);
        placed.place = "weights=" + tier;
        placed.prefetch = prefetch;
        placed.threads = 1 + prefetch;
        EXPECT_EQ(Machine(placed).decode(tokens(), 9), expected) << tier << " " << prefetch;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Decoding, ::testing::ValuesIn(kModels), [](const auto& model) {
  const std::string name = model.param;
  return name.substr(0, name.find(':'));
});

Options small_generation(const TemporaryFolder& folder) {
  Options options = small_run(folder, kModels[1], 32 * kMiB);
  options.from_scratch = true;
  options.prompt_ids = "1,2,3";
  options.max_tokens = 4;
  options.matmul_dtype = forced_arithmetic("bf16");
  options.threads = 2;
  return options;
}

// With budgets of exactly the plan's bytes, the cache among them: k and v of 7 positions, 2 heads
// of 8 in bf16, 3 layers, each rounded up to 256 bytes.
TEST(DecodingPlan, HasTheCacheAndIsWhatIsReserved) {
  const TemporaryFolder folder;
  Options options = small_generation(folder);
  const auto comm = comm::make_single_rank_communicator();
  const RunSetup setup = decoding_setup(options, *comm);
  EXPECT_EQ(setup.decode.positions, 7);
  EXPECT_EQ(kv_cache_bytes(setup.decode), 3 * 2 * 256);
  options.device_memory = setup.plan.total_bytes(Tier::device);
  options.host_memory = setup.plan.total_bytes(Tier::host);
  Machine machine(options);
  const std::vector<std::int32_t> prompt{1, 2, 3};
  EXPECT_EQ(machine.inference.next_logits(prompt).size(), 256u);
  Device& device = machine.session.device();
  EXPECT_EQ(device.device_budget().peak_bytes(), setup.plan.total_bytes(Tier::device));
  EXPECT_EQ(device.host_budget().peak_bytes(), setup.plan.total_bytes(Tier::host));
}

TEST(DecodingPlan, HasAtMostTheModelsContext) {
  const TemporaryFolder folder;
  Options options = small_generation(folder);
  options.max_tokens = 1'000'000;
  const auto comm = comm::make_single_rank_communicator();
  EXPECT_EQ(decoding_setup(options, *comm).decode.positions, kContext);
}

}  // namespace
}  // namespace strata::test

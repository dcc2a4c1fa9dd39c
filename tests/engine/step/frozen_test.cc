// --lr-scale: what is frozen stays bit for bit as it was and does not count in the gradient norm; a
// factor is one on the learning rate.
#include <gtest/gtest.h>

#include "tests/engine/step/regimes.h"

namespace strata::test {
namespace {

using engine::Options;

class Frozen : public ::testing::TestWithParam<double> {  // --clip-norm: deferred, or in backward
 protected:
  static Options options(std::vector<std::string> lr_scale) {
    Options options = base_options();
    options.place = "all=nvme";
    options.activations = "host";
    options.clip_norm = GetParam();
    options.lr_scale = std::move(lr_scale);
    return options;
  }
};

// Frozen: all of block 1, and of block 0 what follows attention.
TEST_P(Frozen, StaysAsItWasAndTheRestLearns) {
  EngineRun run(options({"h.1.*=0", "h.0.mlp.*=0"}));
  const auto before = run.masters();
  for (int i = 0; i < kSteps; ++i) run.step();
  const auto after = run.masters();
  for (std::size_t u = 0; u < run.setup().units.size(); ++u) {
    for (const models::TensorSpec& tensor : run.setup().units[u].tensors) {
      const bool frozen = tensor.name.starts_with("h.1.") || tensor.name.starts_with("h.0.mlp");
      const auto values = [&](const std::vector<std::vector<float>>& masters) {
        const auto first = masters[u].begin() + tensor.offset_elements;
        return std::vector<float>(first, first + tensor.elements());
      };
      EXPECT_EQ(values(after) == values(before), frozen) << tensor.name;
    }
  }
}

// The token table and a head of its own, each frozen alone.
TEST_P(Frozen, OneOfTwoTablesStaysAsItWas) {
  for (const std::string frozen : {"lm_head", "embed_tokens"}) {
    Options llama = options({frozen + ".*=0"});
    llama.model = kLlama;
    EngineRun run(llama);
    const auto before = run.masters();
    for (int i = 0; i < kSteps; ++i) run.step();
    const auto after = run.masters();
    for (std::size_t u = 0; u < before.size(); ++u) {
      const std::string& name = run.setup().units[u].name;
      EXPECT_EQ(after[u] == before[u], name.starts_with(frozen)) << name;
    }
  }
}

// The squares of all elements are those of some and those of the others. In the first step all runs
// have the same weights, so the same gradients; the sums are of positive numbers in f64, in another
// order: a relative error of at most 1e5 elements x 2^-53 = 1e-11.
TEST_P(Frozen, DoesNotCountInTheNorm) {
  const auto first_norm = [&](std::vector<std::string> lr_scale) {
    EngineRun run(options(std::move(lr_scale)));
    return run.step().grad_norm;
  };
  const double all = first_norm({});
  // Biases and norms are short: their tensors begin and end inside the blocks of the sum.
  const double some = first_norm({"*=0", "*.bias=1", "h.2.*=1", "wte.*=1"});
  const double others = first_norm({"*.bias=0", "h.2.*=0", "wte.*=0"});
  EXPECT_LT(some, all);
  EXPECT_LT(others, all);
  EXPECT_NEAR(some * some + others * others, all * all, 1e-11 * all * all);
}

TEST_P(Frozen, AFactorIsOneOnTheLearningRate) {
  const Options scaled = options({"*=0.5"});  // exact in every format
  Options slower = options({});
  slower.lr = scaled.lr / 2;
  expect_same_bits(train(scaled, kSteps, 0), train(slower, kSteps, 0));
}

// A frozen unit is never pending: the order of updates leaves it out, and so does the traffic.
TEST_P(Frozen, AFrozenUnitIsNeverWritten) {
  EngineRun run(options({"h.*=0", "wte.*=0"}));
  run.step();
  offload::Traffic moved = run.step().traffic;
  run.step();
  if (run.plan().update == offload::UpdateTime::deferred) {
    moved += run.trainer().update_traffic();
  }
  std::int64_t trained = 0;
  for (const offload::UnitPlan& unit : run.plan().units) {
    if (!unit.frozen) trained += unit.shard_elements;
  }
  // w, rem, m and v, and deferred the gradient.
  const std::int64_t bytes = run.plan().update == offload::UpdateTime::deferred ? 16 : 12;
  EXPECT_EQ(moved.bytes(offload::Link::nvme_written), bytes * trained);
}

INSTANTIATE_TEST_SUITE_P(UpdateTime, Frozen, ::testing::Values(1.0, 0.0), [](const auto& info) {
  return info.param > 0 ? "deferred" : "in_backward";
});

}  // namespace
}  // namespace strata::test

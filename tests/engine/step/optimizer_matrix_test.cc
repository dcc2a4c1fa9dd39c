// Every optimizer and every format of its moments computes the same bits wherever its state lives,
// however it is cut into chunks, how many threads work and when the update is made: in backward, or
// deferred until just before the next use.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/engine/step/regimes.h"

namespace strata::test {
namespace {

using engine::Options;

Edit optimizer(const std::string& name, const std::string& moments) {
  return [=](Options& o) {
    o.optimizer = name;
    o.moments = moments;
    o.clip_norm = 0;
    if (name == "lion") o.lr = 1e-3;  // its steps have the full length from the first on
  };
}

// Within one, everything must agree.
const std::vector<Named>& arithmetics() {
  static const std::vector<Named> kArithmetics = {
      {"adam", optimizer("adam", "f32")},
      {"lion", optimizer("lion", "f32")},
      {"adamw_bf16", optimizer("adamw", "bf16")},
      {"adamw_int8", optimizer("adamw", "int8")},
      {"lion_bf16", optimizer("lion", "bf16")},
      {"lion_int8_bf16_gradients",
       [](Options& o) {
         optimizer("lion", "int8")(o);
         o.grad_dtype = "bf16";
       }},
      {"adam_int8_f32_masters_passes",
       [](Options& o) {
         optimizer("adam", "int8")(o);
         o.precision = "f32";
         o.matmul_dtype = "f32";
         o.pass = 2;
       }},
      // A unit and a tied unit that are frozen, tensors of another one, and factors that are not 0.
      {"frozen_int8",
       [](Options& o) {
         optimizer("adamw", "int8")(o);
         o.lr_scale = {"h.1.*=0", "wte.*=0", "h.0.attn.*=0", "h.0.mlp.*=0.5", "wpe.*=2"};
       }},
      {"frozen_bf16_passes",
       [](Options& o) {
         optimizer("adamw", "bf16")(o);
         o.grad_dtype = "bf16";
         o.pass = 1;
         o.lr_scale = {"h.2.*=0", "*.bias=0", "ln_f.weight=3"};
       }},
  };
  return kArithmetics;
}

// The first is the reference.
const std::vector<Named>& places() {
  static const std::vector<Named> kPlaces = {
      {"all_host", placed("all=host", "host")},
      {"all_nvme", placed("all=nvme", "nvme")},
      {"all_device", placed("all=device", "device")},
      {"odd_chunks_mixed",
       [](Options& o) {
         placed("weights=device,remainder=host,moments=nvme", "host")(o);
         o.chunk_size = 48 * kKiB;
         o.prefetch = 1;
       }},
      {"one_thread_small_chunks",
       [](Options& o) {
         placed("weights=nvme,moments=nvme,remainder=device,gradients=nvme", "device")(o);
         o.chunk_size = 16 * kKiB;
         o.threads = 1;
         o.prefetch = 4;
       }},
      {"smallest_budgets", [](Options& o) { take_smallest_budgets(o); }},
  };
  return kPlaces;
}

void in_backward(Options&) {}
void deferred(Options& o) { o.on_nonfinite = "skip"; }  // waits for the norm, and scales by one

Options options_with(const Named& arithmetic, const Edit& time, const Named& place) {
  Options options = base_options();
  arithmetic.edit(options);
  time(options);
  place.edit(options);
  return options;
}

const RunResult& reference(const Named& arithmetic) {
  static std::map<std::string, RunResult> kept;
  auto found = kept.find(arithmetic.name);
  if (found == kept.end()) {
    const Options options = options_with(arithmetic, in_backward, places().front());
    found = kept.emplace(arithmetic.name, train(options, kSteps, kValidationSequences)).first;
  }
  return found->second;
}

struct Case {
  Named arithmetic;
  Named time;
  Named place;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Named& arithmetic : arithmetics()) {
    for (std::size_t p = 0; p < places().size(); ++p) {
      if (p > 0) all.push_back({arithmetic, {"in_backward", in_backward}, places()[p]});
      all.push_back({arithmetic, {"deferred", deferred}, places()[p]});
    }
  }
  return all;
}

class OptimizerMatrix : public ::testing::TestWithParam<Case> {};

TEST_P(OptimizerMatrix, SameBits) {
  const auto& [arithmetic, time, place] = GetParam();
  const Options options = options_with(arithmetic, time.edit, place);
  expect_same_bits(train(options, kSteps, kValidationSequences), reference(arithmetic));
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerMatrix, ::testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.arithmetic.name + "_" + info.param.time.name + "_" + info.param.place.name;
});

// That the matrix compares what it says.
TEST(OptimizerMatrixSetup, TheReferencesLearnAndDiffer) {
  std::map<double, std::string> seen;
  for (const Named& arithmetic : arithmetics()) {
    const RunResult& result = reference(arithmetic);
    EXPECT_LT(result.losses.back(), result.losses.front() - 0.05) << arithmetic.name;
    const auto [other, is_new] = seen.emplace(result.losses.back(), arithmetic.name);
    EXPECT_TRUE(is_new) << arithmetic.name << " and " << other->second;
  }
}

TEST(OptimizerMatrixSetup, ShardsAreSeveralChunksOfSeveralSizes) {
  const auto comm = comm::make_single_rank_communicator();
  std::map<std::int64_t, std::int64_t> chunks;  // of the first block, per size
  for (const Named& place : places()) {
    const offload::Plan plan =
        make_setup(options_with(arithmetics()[3], deferred, place), *comm).plan;
    chunks[plan.chunk_elements] = ceil_div(plan.units[2].shard_elements, plan.chunk_elements);
  }
  EXPECT_EQ(chunks.size(), 3u);
  EXPECT_GE(chunks[4096], 4);
  EXPECT_GE(chunks[12288], 2);
}

}  // namespace
}  // namespace strata::test

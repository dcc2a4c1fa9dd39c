// The plan is what is reserved, byte for byte, and what a step moves.
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/engine_run.h"
#include "tests/support/forced_arithmetic.h"
#include "tests/support/reserved_bytes.h"

namespace strata::test {
namespace {

using engine::Options;
using offload::Tier;

struct Case {
  std::string name;
  std::string place;
  std::string activations;
  double clip_norm = 1;
  int prefetch = 2;
  std::string precision = "bf16";
  std::string grad_dtype = "f32";
  int pass = 100;
  bool recompute = true;
  bool smallest = false;
  std::string optimizer = "adamw";
  std::string moments = "f32";
  std::vector<std::string> lr_scale = {};
  std::optional<engine::CheckpointInterval> checkpoint_every = {};  // in a run with a folder
  std::string model = "gpt2:layers=3,hidden=48,heads=3,context=32";
};

constexpr const char* kLlama =
    "llama:layers=3,hidden=48,heads=6,kv-heads=2,intermediate=80,context=32";
constexpr const char* kQwen3 =
    "qwen3:layers=3,hidden=48,heads=4,kv-heads=2,head-dim=20,intermediate=80,context=32";

void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

class Reservation : public ::testing::Test {
 protected:
  Reservation() { write_text(folder_.path("text.txt"), 8000); }

  Options options(const Case& test) const {
    Options options = small_run(folder_, test.model.c_str(), 48 * kMiB);
    options.val_fraction = 0.2;
    options.global_batch = 8;
    options.micro_batch = 2;
    options.chunk_size = 64 * kKiB;
    options.threads = 2;
    options.place = test.place;
    options.activations = test.activations;
    options.clip_norm = test.clip_norm;
    options.prefetch = test.prefetch;
    options.precision = test.precision;
    options.matmul_dtype = forced_arithmetic(test.precision);
    options.grad_dtype = test.grad_dtype;
    options.pass = test.pass;
    options.recompute = test.recompute;
    options.optimizer = test.optimizer;
    options.moments = test.moments;
    options.lr_scale = test.lr_scale;
    if (test.checkpoint_every) options.run = folder_.path("run");
    options.checkpoint_every = test.checkpoint_every;
    return test.smallest ? with_smallest_budgets(options) : options;
  }

  TemporaryFolder folder_;
};

class Regimes : public Reservation, public ::testing::WithParamInterface<Case> {};

TEST_P(Regimes, ReserveThePlan) {
  EngineRun run(options(GetParam()));
  const auto expect_planned = [&] {
    const offload::Plan& plan = run.plan();
    const Budget& device = run.session().device().device_budget();
    const Budget& host = run.session().device().host_budget();
    EXPECT_EQ(test::held_bytes(device), test::planned_bytes(plan, Tier::device));
    EXPECT_EQ(test::held_bytes(host), test::planned_bytes(plan, Tier::host));
    EXPECT_EQ(device.peak_bytes(), plan.total_bytes(Tier::device));
    EXPECT_EQ(host.peak_bytes(), plan.total_bytes(Tier::host));
    EXPECT_LE(device.peak_bytes(), run.setup().options.device_memory);
    EXPECT_LE(host.peak_bytes(), run.setup().options.host_memory);
    const io::Storage* const storage = run.session().volume();
    EXPECT_EQ(storage != nullptr ? storage->capacity_bytes() : 0, plan.total_bytes(Tier::nvme));
  };
  expect_planned();
  run.step();
  run.evaluate(3);
  run.step();
  run.masters();
  expect_planned();
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const double clip : {1.0, 0.0}) {
    const std::string suffix = clip > 0 ? "" : "_in_backward";
    const auto add = [&](Case test) {
      test.name += suffix;
      test.clip_norm = clip;
      all.push_back(test);
    };
    add({.name = "device", .place = "all=device", .activations = "device"});
    add({.name = "host", .place = "all=host", .activations = "host"});
    add({.name = "nvme", .place = "all=nvme", .activations = "nvme"});
    add({.name = "automatic", .place = "", .activations = "auto"});
    add({.name = "mixed",
         .place = "weights=device,remainder=host,moments=nvme,gradients=nvme",
         .activations = "host"});
    add({.name = "mixed_passes",
         .place = "weights=nvme,remainder=device,moments=host,gradients=device",
         .activations = "nvme",
         .pass = 2});
    add({.name = "smallest",
         .place = "all=nvme",
         .activations = "nvme",
         .prefetch = 0,
         .smallest = true});
    add({.name = "prefetch_4", .place = "all=nvme", .activations = "nvme", .prefetch = 4});
    add({.name = "no_recompute", .place = "all=nvme", .activations = "nvme", .recompute = false});
    add({.name = "passes", .place = "all=nvme", .activations = "nvme", .pass = 1});
    add({.name = "f32", .place = "all=nvme", .activations = "device", .precision = "f32"});
    add({.name = "bf16_gradients",
         .place = "all=nvme",
         .activations = "device",
         .grad_dtype = "bf16"});
    add({.name = "bf16_gradients_passes",
         .place = "all=nvme",
         .activations = "device",
         .grad_dtype = "bf16",
         .pass = 1});
    add({.name = "bf16_moments", .place = "all=nvme", .activations = "host", .moments = "bf16"});
    add({.name = "int8_moments", .place = "all=nvme", .activations = "host", .moments = "int8"});
    add({.name = "int8_moments_mixed",
         .place = "weights=host,remainder=nvme,moments=device,gradients=host",
         .activations = "host",
         .moments = "int8"});
    add({.name = "lion_smallest",
         .place = "all=nvme",
         .activations = "nvme",
         .prefetch = 0,
         .smallest = true,
         .optimizer = "lion",
         .moments = "int8"});
    add({.name = "lion_f32_host",
         .place = "all=host",
         .activations = "nvme",
         .precision = "f32",
         .optimizer = "lion"});
    add({.name = "frozen",
         .place = "all=nvme",
         .activations = "nvme",
         .lr_scale = {"h.1.*=0", "wte.*=0", "h.0.attn.*=0"}});
    add({.name = "commits_of_host",
         .place = "all=host",
         .activations = "host",
         .checkpoint_every = engine::CheckpointInterval{1, 0}});
    add({.name = "commits_smallest",
         .place = "all=nvme",
         .activations = "nvme",
         .smallest = true,
         .lr_scale = {"h.1.*=0"},
         .checkpoint_every = engine::CheckpointInterval{1, 0}});
    add({.name = "llama_smallest",
         .place = "all=nvme",
         .activations = "nvme",
         .prefetch = 0,
         .smallest = true,
         .model = kLlama});
    add({.name = "llama_mixed_passes",
         .place = "weights=nvme,remainder=device,moments=host,gradients=device",
         .activations = "host",
         .pass = 2,
         .model = kLlama});
    add({.name = "qwen3_no_recompute",
         .place = "all=nvme",
         .activations = "nvme",
         .recompute = false,
         .model = kQwen3});
    add({.name = "clean_mark",
         .place = "weights=host,remainder=nvme,moments=device,gradients=host",
         .activations = "host",
         .checkpoint_every = engine::CheckpointInterval{}});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Regimes, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::test

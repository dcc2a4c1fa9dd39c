// Steps that write to the other slot, because a commit rests on this one, have the bits of steps
// that write in place.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/engine_run.h"
#include "tests/support/forced_arithmetic.h"

namespace strata::test {
namespace {

struct Case {
  std::string name;
  std::string place;
  double clip_norm;  // 0: updates in backward
  const char* model = "gpt2:layers=2,hidden=48,heads=3,context=32";
  const char* frozen = "h.1.*=0";
};

constexpr const char* kLlama =
    "llama:layers=2,hidden=48,heads=6,kv-heads=2,intermediate=80,context=32";
constexpr const char* kFrozenOfLlama = "layers.1.*=0";

void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

class Slots : public ::testing::TestWithParam<Case> {
 protected:
  Slots() { write_text(folder_.path("text.txt"), 8000); }

  engine::Options options() const {
    engine::Options options = small_run(folder_, GetParam().model, 48 * kMiB);
    options.val_fraction = 0.2;
    options.global_batch = 4;
    options.chunk_size = 16 * kKiB;
    options.threads = 2;
    options.matmul_dtype = forced_arithmetic("bf16");
    options.clip_norm = GetParam().clip_norm;
    options.place = GetParam().place;
    options.lr_scale = {GetParam().frozen};
    return options;
  }

  TemporaryFolder folder_;
};

TEST_P(Slots, ChangeNoBit) {
  constexpr int kSteps = 4;
  const RunResult in_place = train(options(), kSteps, 3);
  engine::Options durable = options();
  durable.run = folder_.path("run");
  durable.checkpoint_every = engine::CheckpointInterval{1, 0};
  EngineRun run(durable);
  ASSERT_EQ(run.plan().durability, offload::Durability::commits);
  RunResult result;
  for (int step = 1; step <= kSteps; ++step) {
    const engine::StepResult done = run.step();
    result.losses.push_back(done.loss);
    if (step != 2) run.trainer().state().protect_live_slots();
  }
  result.validation_loss = run.evaluate(3);
  result.masters = run.masters();
  EXPECT_EQ(result.losses, in_place.losses);
  EXPECT_EQ(result.validation_loss, in_place.validation_loss);
  EXPECT_TRUE(result.masters == in_place.masters);
}

INSTANTIATE_TEST_SUITE_P(
    All, Slots,
    ::testing::Values(Case{"deferred", "all=nvme", 1}, Case{"in_backward", "all=nvme", 0},
                      Case{"deferred_mixed", "weights=host,moments=nvme,remainder=device", 1},
                      Case{"in_backward_mixed", "weights=nvme,moments=host,remainder=nvme", 0},
                      Case{"llama_deferred", "all=nvme", 1, kLlama, kFrozenOfLlama},
                      Case{"llama_in_backward_mixed", "weights=nvme,moments=host,remainder=nvme", 0,
                           kLlama, kFrozenOfLlama}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::test

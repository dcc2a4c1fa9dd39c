// What checkpoints write: with all state on NVMe their own pages only, otherwise copies of what
// lives in memory besides; as the plan and the forecast say.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/plan/write_forecast.h"
#include "tests/support/engine_run.h"
#include "tests/support/forced_arithmetic.h"

namespace strata::test {
namespace {

using engine::Options;

constexpr int kSteps = 5;

struct Case {
  std::string name;
  std::string place;
  double clip_norm = 1;  // 0: updates in backward
  std::string moments = "f32";
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

class CommitTraffic : public ::testing::TestWithParam<Case> {
 protected:
  CommitTraffic() { write_text(folder_.path("text.txt"), 8000); }

  Options options() const {
    Options options = small_run(folder_, "gpt2:layers=3,hidden=48,heads=3,context=32", 48 * kMiB);
    options.global_batch = 4;
    options.matmul_dtype = forced_arithmetic("bf16");
    options.threads = 2;
    options.place = GetParam().place;
    options.activations = "nvme";
    options.clip_norm = GetParam().clip_norm;
    options.moments = GetParam().moments;
    options.lr_scale = {"h.1.*=0"};  // of a frozen unit nothing is written twice
    return options;
  }
  Options committed() const {
    Options options = this->options();
    options.run = folder_.path("run");
    options.checkpoint_every = engine::CheckpointInterval{1, 0};
    return options;
  }

  enum class Commits : std::uint8_t { none, every_step };
  // By the steps and their updates, of which none is left pending.
  static std::int64_t written_in_steps(EngineRun& run, Commits commits) {
    const std::int64_t before = written(run);
    for (int step = 1; step <= kSteps; ++step) {
      run.step();
      if (commits == Commits::every_step && step < kSteps) run.commit();
    }
    run.trainer().drain();
    if (commits == Commits::every_step) run.commit_now();
    return written(run) - before;
  }
  static std::int64_t written(EngineRun& run) {
    return run.session().volume()->traffic().written_bytes;
  }
  // Of frozen units that live in memory: copied by the first commit, and never again.
  static std::int64_t frozen_copy_bytes(const offload::Plan& plan) {
    std::int64_t bytes = 0;
    for (const offload::UnitPlan& unit : plan.units) {
      for (const offload::StateKind kind : offload::kLastingKinds) {
        const bool copied = unit.frozen && unit.tier(kind) != offload::Tier::nvme;
        if (copied) bytes += plan.shard_bytes(unit, kind);
      }
    }
    return bytes;
  }

  TemporaryFolder folder_;
};

TEST_P(CommitTraffic, IsCopiesOfWhatLivesInMemoryAndPagesOfItsOwn) {
  EngineRun plain(options());
  EngineRun run(committed());
  const std::int64_t without = written_in_steps(plain, Commits::none);
  const std::int64_t with = written_in_steps(run, Commits::every_step);
  const offload::Plan& plan = run.plan();
  EXPECT_EQ(plan.commit_copy_bytes() == 0, GetParam().place == "all=nvme");
  EXPECT_EQ(with - without, frozen_copy_bytes(plan) +
                                kSteps * (plan.commit_copy_bytes() + plan.commit_metadata_bytes()));
}

TEST_P(CommitTraffic, IsForecast) {
  EngineRun run(committed());
  const std::int64_t written = written_in_steps(run, Commits::every_step);
  const engine::WriteForecast forecast = engine::forecast_writes(run.setup(), 0);
  EXPECT_EQ(written, frozen_copy_bytes(run.plan()) + kSteps * forecast.step_bytes +
                         forecast.commits(kSteps) * forecast.commit_bytes);
}

// It is told apart from the step that it is made in, and does not depend on how fast it was.
TEST_P(CommitTraffic, IsToldApartFromTheStepItIsMadeIn) {
  EngineRun run(committed());
  const offload::Plan& plan = run.plan();
  for (int step = 1; step <= kSteps; ++step) {
    const engine::StepResult result = run.step();
    std::int64_t bytes = result.traffic.bytes(offload::Link::nvme_written);
    if (plan.update == offload::UpdateTime::deferred && step > 1) {
      bytes += run.trainer().update_traffic().bytes(offload::Link::nvme_written);
    }
    run.commit();
    if (step < 3) continue;  // the first commit has what is frozen, too
    EXPECT_EQ(bytes, plan.nvme_written_bytes());
    EXPECT_EQ(result.commit_written_bytes, plan.commit_copy_bytes() + plan.commit_metadata_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Regimes, CommitTraffic,
    ::testing::Values(Case{"deferred", "all=nvme"}, Case{"in_backward", "all=nvme", 0},
                      Case{"int8_moments", "all=nvme", 1, "int8"}, Case{"host", "all=host"},
                      Case{"device", "all=device", 0},
                      Case{"mixed", "weights=host,remainder=device,moments=nvme"},
                      Case{"mixed_in_backward", "weights=nvme,remainder=nvme,moments=host", 0}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::test

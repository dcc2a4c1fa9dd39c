// Whole runs on storage that is slow and completes out of order, fails, or fills up: late
// completions change no bits, and a failure ends the run with an error that names the request, at
// any point.
#include <gtest/gtest.h>

#include "kernels/base/error.h"
#include "tests/support/engine_run.h"
#include "tests/support/error_text.h"

namespace strata::test {
namespace {

using engine::Options;

class Fault : public ::testing::TestWithParam<double> {  // --clip-norm: deferred, or in backward
 protected:
  Fault() { write_text(folder_.path("text.txt"), 8000); }

  Options options() const {
    Options options = small_run(folder_, "gpt2:layers=2,hidden=32,heads=2,context=16", 32 * kMiB);
    options.val_fraction = 0.2;
    options.place = "all=nvme";
    options.activations = "nvme";
    options.global_batch = 3;
    options.matmul_dtype = "bf16";
    options.threads = 2;
    options.chunk_size = 16 * kKiB;
    options.clip_norm = GetParam();
    return options;
  }

  TemporaryFolder folder_;
};

TEST_P(Fault, LateCompletionsChangeNoBits) {
  const RunResult expected = train(options(), 3, 3);
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    EngineRun run(options(), io::FaultRules{.seed = seed, .delay_us_max = 300});
    const RunResult actual = result_of(run, 3, 3);
    EXPECT_EQ(actual.losses, expected.losses) << "seed " << seed;
    EXPECT_EQ(actual.validation_loss, expected.validation_loss) << "seed " << seed;
    EXPECT_EQ(actual.masters, expected.masters) << "seed " << seed;
  }
}

void train_until_it_fails(const Options& options, const io::FaultRules& faults) {
  EngineRun run(options, faults);
  for (int i = 0; i < 50; ++i) run.step();
}

// The first requests write the initial state; the later ones are of several steps.
TEST_P(Fault, AFailedRequestEndsTheRun) {
  for (const std::int64_t request : {0, 20, 100, 123, 160, 200, 233, 300, 401}) {
    const std::string text = error_text<IoError>(
        [&] { train_until_it_fails(options(), {.delay_us_max = 50, .fail_request = request}); });
    EXPECT_TRUE(mentions(text, "Input/output error")) << "request " << request << ": " << text;
  }
}

TEST_P(Fault, AFullDriveEndsTheRun) {
  for (const std::int64_t bytes : {100 * kKiB, 2 * kMiB, 4 * kMiB}) {
    const std::string text = error_text<IoError>(
        [&] { train_until_it_fails(options(), {.delay_us_max = 50, .full_after_bytes = bytes}); });
    EXPECT_TRUE(mentions(text, "No space left")) << bytes << ": " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(UpdateTime, Fault, ::testing::Values(1.0, 0.0), [](const auto& info) {
  return info.param > 0 ? "deferred" : "in_backward";
});

}  // namespace
}  // namespace strata::test

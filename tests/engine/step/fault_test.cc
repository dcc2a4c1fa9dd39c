// Whole runs on storage that is slow, completes out of order, fails, fills up, or damages what it
// keeps: what can be made up for changes no bits, and anything else ends the run with an error that
// names it, at any point.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kernels/base/error.h"
#include "tests/support/engine_run.h"
#include "tests/support/error_text.h"
#include "tests/support/forced_arithmetic.h"

namespace strata::test {
namespace {

using engine::Options;
using io::Fault;
using io::FaultRules;

class Faults : public ::testing::TestWithParam<double> {  // --clip-norm: deferred, or in backward
 protected:
  Faults() { write_text(folder_.path("text.txt"), 8000); }

  Options options() const {
    Options options = small_run(folder_, "gpt2:layers=2,hidden=32,heads=2,context=16", 32 * kMiB);
    options.val_fraction = 0.2;
    options.place = "all=nvme";
    options.activations = "nvme";
    options.global_batch = 3;
    options.matmul_dtype = forced_arithmetic("bf16");
    options.threads = 2;
    options.chunk_size = 16 * kKiB;
    options.clip_norm = GetParam();
    return options;
  }

  void expect_no_change(FaultRules rules) const {
    const RunResult expected = train(options(), 3, 3);
    for (rules.seed = 1; rules.seed <= 3; ++rules.seed) {
      EngineRun run(options(), rules);
      const RunResult actual = result_of(run, 3, 3);
      EXPECT_EQ(actual.losses, expected.losses) << "seed " << rules.seed;
      EXPECT_EQ(actual.validation_loss, expected.validation_loss) << "seed " << rules.seed;
      EXPECT_EQ(actual.masters, expected.masters) << "seed " << rules.seed;
    }
  }

  // The error that a run of 50 steps ends in.
  static std::string failure_of(const Options& options, const FaultRules& rules) {
    return error_text<IoError>([&] {
      EngineRun run(options, rules);
      for (int i = 0; i < 50; ++i) run.step();
    });
  }

  TemporaryFolder folder_;
};

TEST_P(Faults, LateCompletionsChangeNoBits) { expect_no_change({.delay_us_max = 300}); }

TEST_P(Faults, ShortTransfersAndInterruptionsChangeNoBits) {
  expect_no_change(FaultRules{.delay_us_max = 50}
                       .with(Fault::short_transfer, 0.3)
                       .with(Fault::interruption, 0.02));
}

// The first requests write the initial state; the later ones are of several steps.
TEST_P(Faults, AFailedRequestEndsTheRun) {
  for (const std::int64_t request : {0, 20, 100, 123, 160, 200, 233, 300, 401}) {
    const std::string text =
        failure_of(options(), {.seed = 9, .delay_us_max = 50, .fail_request = request});
    EXPECT_TRUE(mentions(text, "Input/output error")) << "request " << request << ": " << text;
    EXPECT_TRUE(mentions(text, "faults of seed 9")) << "request " << request << ": " << text;
  }
}

TEST_P(Faults, AFullDriveEndsTheRun) {
  for (const std::int64_t bytes : {100 * kKiB, 2 * kMiB, 4 * kMiB}) {
    const std::string text = failure_of(options(), {.delay_us_max = 50, .full_after_bytes = bytes});
    EXPECT_TRUE(mentions(text, "No space left")) << bytes << ": " << text;
  }
}

TEST_P(Faults, ALostCompletionEndsTheRun) {
  Options impatient = options();
  impatient.io_timeout = 1;
  for (const std::int64_t request : {20, 200}) {
    const std::string text = failure_of(impatient, {.seed = 9, .lose_completion = request});
    EXPECT_TRUE(mentions(text, "not completed after 1.")) << "request " << request << ": " << text;
    EXPECT_TRUE(mentions(text, "faults of seed 9")) << "request " << request << ": " << text;
  }
}

// A bit of each read in turn, over more than a step: each kind of state is among them.
TEST_P(Faults, AFlippedBitEndsTheRunAndIsNamed) {
  std::set<std::string> wanted = {"weights", "remainder",  "moment1",
                                  "moment2", "gradients,", "activation record"};
  for (std::int64_t read = 0; read < 200 && !wanted.empty(); ++read) {
    const std::string text = failure_of(options(), {.seed = 9, .flip_read = read});
    EXPECT_TRUE(mentions(text, "are not those that were written there")) << text;
    EXPECT_TRUE(mentions(text, "faults of seed 9")) << text;
    std::erase_if(wanted, [&](const std::string& kind) { return mentions(text, kind); });
  }
  EXPECT_EQ(wanted, std::set<std::string>());
}

TEST_P(Faults, AWriteThatWentWrongSilentlyEndsTheRun) {
  for (const Fault fault : {Fault::write_flip, Fault::lost_write, Fault::misdirected_write}) {
    const std::string text = failure_of(options(), FaultRules{.seed = 9}.with(fault, 0.01));
    EXPECT_TRUE(mentions(text, "are not those that were written there")) << text;
    EXPECT_TRUE(mentions(text, "faults of seed 9")) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(UpdateTime, Faults, ::testing::Values(1.0, 0.0), [](const auto& info) {
  return info.param > 0 ? "deferred" : "in_backward";
});

}  // namespace
}  // namespace strata::test

// Every optimizer and format of moments over several ranks: the same numbers as on one.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/engine_run.h"
#include "tests/support/error_text.h"
#include "tests/support/json_lines.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using nlohmann::json;

using Arguments = std::vector<std::string>;

constexpr int kSteps = 3;

struct Case {
  const char* name;
  Arguments options;
};

class OptimizerRanks : public ::testing::TestWithParam<Case> {
 protected:
  OptimizerRanks() {
    test::write_text(folder_.path("text.txt"), 8000);
    std::filesystem::create_directory(folder_.path("nvme"));
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    // In sanitizer builds: OpenMPI 4.1 leaks at exit and takes its TCP locks in two orders.
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
    ::setenv("TSAN_OPTIONS", "detect_deadlocks=0", 0);
  }

  test::ProcessResult run(int ranks) const {
    Arguments arguments;
    if (ranks > 1) arguments = {"mpirun", "--oversubscribe", "-n", std::to_string(ranks)};
    const Arguments train = {STRATA_BINARY,
                             "train",
                             "--model",
                             "gpt2:layers=2,hidden=36,heads=3,context=32",
                             "--data",
                             "text.txt",
                             "--nvme",
                             "nvme",
                             "--place",
                             "all=nvme",
                             "--threads",
                             "1",
                             "--precision",
                             "f32",
                             "--lr",
                             "1e-3",
                             "--steps",
                             std::to_string(kSteps),
                             "--eval-every",
                             "1",
                             "--log",
                             fmt::format("{}.jsonl", ranks),
                             "--device-memory",
                             "64MiB",
                             "--host-memory",
                             "256MiB",
                             "--val-fraction",
                             "0.1",
                             "--global-batch",
                             "5",
                             "--eval-batches",
                             "3"};
    arguments.insert(arguments.end(), train.begin(), train.end());
    arguments.insert(arguments.end(), GetParam().options.begin(), GetParam().options.end());
    return test::run_process(arguments, folder_.path());
  }

  std::vector<json> log(int ranks) const {
    const std::string path = folder_.path(fmt::format("{}.jsonl", ranks));
    return test::json_lines(test::contents_of(path));
  }

  test::TemporaryFolder folder_;
};

// As in ranks_test.cc: gradients differ by a relative d = 1e-5, which an update turns into a change
// of the loss of at most 8e-6 a step (Lion: the sign of its average turns over for a share d of the
// elements, each by 2 lr: less).
// Rounding of the moments, in bf16 (2^-8 apart) or in 8 bits (at most a tenth of the value apart,
// where they are not small beside their block's largest), is by the same random numbers or to the
// nearest, so it turns over only for elements that d takes across a threshold: a share d / spacing
// of P = 42,000, each changed by the spacing: sqrt(P d / spacing) x lr x spacing x |g| / sqrt(P) =
// 2e-6. Together 1e-5 a step. A sequence lost or counted twice changes the loss by 1e-2.
constexpr double kLossTolerance = kSteps * 1e-5;
constexpr double kNormTolerance = 1e-4;

TEST_P(OptimizerRanks, Agree) {
  const test::ProcessResult alone = run(1);
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const std::vector<json> one = log(1);
  ASSERT_EQ(one.size(), 1u + kSteps);
  for (const int ranks : {2, 3}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    const test::ProcessResult together = run(ranks);
    if (together.exit_code == 127) GTEST_SKIP() << "no mpirun here";
    if (test::mentions(together.err, "without MPI")) GTEST_SKIP() << "this build is without MPI";
    ASSERT_EQ(together.exit_code, 0) << together.err;
    const std::vector<json> many = log(ranks);
    ASSERT_EQ(many.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(many[i]["val_loss"], one[i]["val_loss"], kLossTolerance) << "step " << i;
      if (i == 0) continue;
      const double norm = one[i]["grad_norm"];
      EXPECT_NEAR(many[i]["loss"], one[i]["loss"], kLossTolerance) << "step " << i;
      EXPECT_NEAR(many[i]["grad_norm"], norm, kNormTolerance * norm) << "step " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OptimizerRanks,
    ::testing::Values(Case{"Bf16", {"--moments", "bf16"}}, Case{"Int8", {"--moments", "int8"}},
                      Case{"LionBf16InBackward",
                           {"--optimizer", "lion", "--moments", "bf16", "--clip-norm", "0"}},
                      Case{"FrozenInt8",
                           {"--moments", "int8", "--lr-scale", "h.0.*=0,wte.*=0,*.bias=0"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::engine

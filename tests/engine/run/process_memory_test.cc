// What a process takes besides what it has reserved of its budgets: code and libraries, their
// heaps, stacks. It does not grow with the model.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "kernels/base/bytes.h"
#include "tests/support/engine_run.h"
#include "tests/support/forced_arithmetic.h"
#include "tests/support/json_lines.h"
#include "tests/support/process.h"

namespace strata::test {
namespace {

// Measured: 29 to 41 MiB, half of it mapped files. Each worker adds a stack and the scratch of its
// libraries, so the number of them is given.
constexpr std::int64_t kBesidesMax = 80 * kMiB;

std::int64_t besides_bytes(const std::string& model) {
  const TemporaryFolder folder;
  write_text(folder.path("text.txt"), 40000);
  std::filesystem::create_directory(folder.path("nvme"));
  const ProcessResult result = Process({STRATA_BINARY,     "train",
                                        "--model",         model,
                                        "--data",          "text.txt",
                                        "--steps",         "3",
                                        "--global-batch",  "2",
                                        "--threads",       "2",
                                        "--device-memory", "128MiB",
                                        "--host-memory",   "192MiB",
                                        "--place",         "all=nvme",
                                        "--activations",   "nvme",
                                        "--matmul-dtype",  forced_arithmetic("bf16"),
                                        "--nvme",          "nvme",
                                        "--from-scratch",  "--json"},
                                       folder.path())
                                   .wait(std::chrono::seconds(120));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json summary = json_lines(result.out).back();
  return summary["resident_peak_bytes"].get<std::int64_t>() -
         summary["device_peak_bytes"].get<std::int64_t>() -
         summary["host_peak_bytes"].get<std::int64_t>();
}

TEST(ProcessMemory, BesidesTheBudgetsIsSmallWhateverTheModel) {
  EXPECT_LE(besides_bytes("gpt2:layers=2,hidden=64,heads=2,context=64"), kBesidesMax);
  // With a hundred times the state.
  EXPECT_LE(besides_bytes("gpt2:layers=6,hidden=512,heads=8,context=256"), kBesidesMax);
}

}  // namespace
}  // namespace strata::test

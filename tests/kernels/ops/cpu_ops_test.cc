#include "kernels/ops/cpu_ops.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/base/budget.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/worker_set.h"
#include "kernels/device/cpu_device.h"
#include "kernels/ops/linear.h"
#include "tests/kernels/ops/op_testing.h"

namespace strata::ops {
namespace {

constexpr CpuOpsLimits kLimits = {.weight_rows_max = 300,
                                  .weight_cols_max = 200,
                                  .rows_max = 128,
                                  .tokens_max = 64,
                                  .head_dim = 16};

bool library_uses_avx512() { return matmul_library().find("avx512") != std::string::npos; }

TEST(CpuOps, ScratchIsWhatWasAnnounced) {
  for (const int threads : {1, 3}) {
    TestDevice device(kLimits, Dtype::bf16, threads);
    const Budget& budget = device.cpu().device_budget();
    EXPECT_EQ(budget.held_bytes(),
              cpu_ops_scratch_bytes(kLimits, device.cpu().workers().worker_slots()));
    const auto entries = budget.entries();
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[0].tag, "matmul scratch");
    EXPECT_EQ(entries[1].tag, "attention scratch");
    EXPECT_EQ(entries[2].tag, "attention gradients scratch");
  }
}

// Panels are bounded: beyond some size of weights their scratch stops growing.
TEST(CpuOps, MatmulScratchIsBounded) {
  CpuOpsLimits large = kLimits;
  large.weight_rows_max = 4096;
  large.weight_cols_max = 4096;
  CpuOpsLimits larger = large;
  larger.weight_rows_max = 1 << 20;
  larger.weight_cols_max = 1 << 20;
  EXPECT_EQ(cpu_ops_scratch_bytes(large, 4), cpu_ops_scratch_bytes(larger, 4));
  EXPECT_LT(cpu_ops_scratch_bytes(large, 4), 4 * 8 * kMiB);
}

TEST(CpuOps, MeasuresEveryShapeAndChoosesTheFaster) {
  TestDevice device(kLimits, Dtype::bf16);
  const std::vector<MatmulShape> shapes = {{MatmulKind::forward, 300, 200, 128},
                                           {MatmulKind::backward_input, 300, 200, 128},
                                           {MatmulKind::backward_weight, 300, 200, 128}};
  const std::int64_t held_bytes = device.cpu().device_budget().held_bytes();
  const auto choices = measure_matmuls(device.cpu(), shapes, Dtype::bf16, nullptr);
  ASSERT_EQ(choices.size(), shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_EQ(choices[i].kind, shapes[i].kind);
    EXPECT_EQ(choices[i].n, 300);
    EXPECT_EQ(choices[i].k, 200);
    EXPECT_GT(choices[i].flops_per_s, 0);
  }
  EXPECT_EQ(device.cpu().device_budget().held_bytes(), held_bytes);
}

TEST(CpuOps, MeasuresOnlyTheForcedArithmetic) {
  TestDevice device(kLimits, Dtype::bf16, 1);
  const std::vector<MatmulShape> shapes = {{MatmulKind::forward, 300, 200, 128}};
  const Dtype forced = Dtype::f32;
  const auto choices = measure_matmuls(device.cpu(), shapes, Dtype::bf16, &forced);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].arithmetic, Dtype::f32);
}

TEST(CpuOps, F32OperandsAreMultipliedAsF32) {
  TestDevice device(kLimits, Dtype::bf16, 1);
  const std::vector<MatmulShape> shapes = {{MatmulKind::forward, 300, 200, 128}};
  const auto choices = measure_matmuls(device.cpu(), shapes, Dtype::f32, nullptr);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].arithmetic, Dtype::f32);
}

// Both arithmetics give sums within rounding of each other, but not the same bits: the table
// decides for its shape, the default for every other.
TEST(CpuOps, ChoicesApplyToTheirShapeAlone) {
  const std::int64_t m = 40;
  const std::int64_t k = 200;
  const auto forward = [&](Dtype default_arithmetic, std::vector<MatmulChoice> choices,
                           std::int64_t n) {
    TestDevice device(kLimits, default_arithmetic, 1);
    set_matmul_choices(device.cpu(), std::move(choices), default_arithmetic);
    const DeviceMatrix x(device, Dtype::bf16, m, k, 0, random_values(Dtype::bf16, m * k, 1));
    const DeviceMatrix w(device, Dtype::bf16, n, k, 0, random_values(Dtype::bf16, n * k, 2));
    DeviceMatrix y(device, Dtype::f32, m, n);
    linear_forward(device.stream(), y.view(), x.view(), w.view(), nullptr);
    return y.bytes();
  };
  const std::vector<MatmulChoice> choices = {{MatmulKind::forward, 300, k, Dtype::f32},
                                             {MatmulKind::backward_input, 200, k, Dtype::f32}};
  if (!library_uses_avx512()) GTEST_SKIP() << "one arithmetic only";
  ASSERT_NE(forward(Dtype::bf16, {}, 300), forward(Dtype::f32, {}, 300));
  EXPECT_EQ(forward(Dtype::bf16, choices, 300), forward(Dtype::f32, {}, 300));
  EXPECT_EQ(forward(Dtype::bf16, choices, 200), forward(Dtype::bf16, {}, 200));
}

TEST(CpuOps, NamesItsMatmulLibrary) {
  EXPECT_EQ(matmul_library().rfind("oneDNN ", 0), 0u) << matmul_library();
  EXPECT_NE(matmul_library().find(", "), std::string::npos) << matmul_library();
}

TEST(CpuOpsDeathTest, OpsNeedTheirState) {
  EXPECT_DEATH(
      {
        Budget host("host memory", kMiB);
        WorkerSet workers(1);
        FailureLatch failure;
        CpuDevice device({.device_memory_bytes = kMiB}, host, workers, failure, nullptr);
        set_matmul_choices(device, {}, Dtype::bf16);
      },
      "attach_cpu_ops");
}

// The library's instruction set belongs to the process: these run in processes of their own, and
// say by the exit status whether all was well.
[[noreturn]] void multiply_bf16_and_exit(Isa isa) {
  TestDevice device(kLimits, Dtype::bf16, 2, isa);
  const DeviceMatrix x(device, Dtype::bf16, 2, 3, 0, {1, 2, 3, 4, 5, 6});
  const DeviceMatrix w(device, Dtype::bf16, 1, 3, 0, {1, 10, 100});
  DeviceMatrix y(device, Dtype::f32, 2, 1);
  linear_forward(device.stream(), y.view(), x.view(), w.view(), nullptr);
  const bool right = y.get() == std::vector<float>{321, 654};
  std::exit(right && !library_uses_avx512() ? 0 : 1);
}

[[noreturn]] void lower_isa_after_use_and_exit() {
  static_cast<void>(matmul_library());
  try {
    TestDevice device(kLimits, Dtype::f32, 1, Isa::avx2);
  } catch (const ConfigError& error) {
    std::exit(std::string(error.what()).find("--isa avx2") == std::string::npos ? 1 : 0);
  }
  std::exit(2);
}

TEST(CpuOpsDeathTest, LesserInstructionSetsMultiplyBf16AsF32) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const Isa isa : {Isa::avx2, Isa::scalar}) {
    if (!isa_supported(isa)) continue;
    EXPECT_EXIT(multiply_bf16_and_exit(isa), ::testing::ExitedWithCode(0), "") << name_of(isa);
  }
}

TEST(CpuOpsDeathTest, TheInstructionSetCannotBeLoweredAfterUse) {
  if (!library_uses_avx512()) GTEST_SKIP() << "nothing above avx2 is in use";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(lower_isa_after_use_and_exit(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace strata::ops

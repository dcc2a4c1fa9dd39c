#include "kernels/ops/cpu_ops.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/base/error.h"
#include "kernels/ops/linear.h"
#include "tests/kernels/ops/op_test.h"

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
    OpTest test(threads, kLimits);
    const Budget& budget = test.device().device_budget();
    EXPECT_EQ(budget.held_bytes(),
              cpu_ops_scratch_bytes(kLimits, test.device().workers().worker_slots()));
    const auto entries = budget.entries();
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(entries[0].tag, "matmul scratch");
    EXPECT_EQ(entries[1].tag, "attention scratch");
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
  OpTest test(2, kLimits);
  const std::vector<MatmulShape> shapes = {{MatmulKind::forward, 300, 200, 128},
                                           {MatmulKind::backward_input, 300, 200, 128},
                                           {MatmulKind::backward_weight, 300, 200, 128}};
  const std::int64_t held_bytes = test.device().device_budget().held_bytes();
  const auto choices = measure_matmuls(test.device(), shapes, Dtype::bf16, nullptr);
  ASSERT_EQ(choices.size(), shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_EQ(choices[i].kind, shapes[i].kind);
    EXPECT_EQ(choices[i].n, 300);
    EXPECT_EQ(choices[i].k, 200);
    EXPECT_GT(choices[i].flops_per_s, 0);
  }
  EXPECT_EQ(test.device().device_budget().held_bytes(), held_bytes);
}

TEST(CpuOps, MeasuresOnlyTheForcedArithmetic) {
  OpTest test(1, kLimits);
  const std::vector<MatmulShape> shapes = {{MatmulKind::forward, 300, 200, 128}};
  const Dtype forced = Dtype::f32;
  const auto choices = measure_matmuls(test.device(), shapes, Dtype::bf16, &forced);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].arithmetic, Dtype::f32);
}

TEST(CpuOps, F32OperandsAreMultipliedAsF32) {
  OpTest test(1, kLimits);
  const std::vector<MatmulShape> shapes = {{MatmulKind::forward, 300, 200, 128}};
  const auto choices = measure_matmuls(test.device(), shapes, Dtype::f32, nullptr);
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
    OpTest test(1, kLimits, default_arithmetic);
    set_matmul_choices(test.device(), std::move(choices), default_arithmetic);
    const DeviceMatrix x(test, Dtype::bf16, m, k, 0, random_values(Dtype::bf16, m * k, 1));
    const DeviceMatrix w(test, Dtype::bf16, n, k, 0, random_values(Dtype::bf16, n * k, 2));
    DeviceMatrix y(test, Dtype::f32, m, n);
    linear_forward(test.stream(), y.view(), x.view(), w.view(), nullptr);
    return y.raw();
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
  OpTest test(2, kLimits, Dtype::bf16, {}, isa);
  const DeviceMatrix x(test, Dtype::bf16, 2, 3, 0, {1, 2, 3, 4, 5, 6});
  const DeviceMatrix w(test, Dtype::bf16, 1, 3, 0, {1, 10, 100});
  DeviceMatrix y(test, Dtype::f32, 2, 1);
  linear_forward(test.stream(), y.view(), x.view(), w.view(), nullptr);
  const bool right = y.get() == std::vector<float>{321, 654};
  std::exit(right && !library_uses_avx512() ? 0 : 1);
}

[[noreturn]] void lower_isa_after_use_and_exit() {
  static_cast<void>(matmul_library());
  try {
    OpTest test(1, kLimits, Dtype::f32, {}, Isa::avx2);
  } catch (const ConfigError& error) {
    std::exit(std::string(error.what()).find("--isa avx2") == std::string::npos ? 1 : 0);
  }
  std::exit(2);
}

TEST(CpuOpsDeathTest, LesserInstructionSetsMultiplyBf16AsF32) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const Isa isa : {Isa::avx2, Isa::scalar}) {
    if (!isa_supported(isa)) continue;
    EXPECT_EXIT(multiply_bf16_and_exit(isa), testing::ExitedWithCode(0), "") << name_of(isa);
  }
}

TEST(CpuOpsDeathTest, TheInstructionSetCannotBeLoweredAfterUse) {
  if (!library_uses_avx512()) GTEST_SKIP() << "nothing above avx2 is in use";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(lower_isa_after_use_and_exit(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace strata::ops

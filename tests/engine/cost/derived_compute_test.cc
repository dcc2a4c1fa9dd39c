// derive_compute() against sums written out for one model of each kind, in double.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "engine/cost/compute_cost.h"

namespace strata::engine {
namespace {

constexpr double kNever = 1e30;  // so fast that it takes no time

MachineRates gpu_rates(double flops_per_s, double memory_bytes_per_s) {
  MachineRates rates;
  rates.gpu = GpuRates{flops_per_s, memory_bytes_per_s, 1, 1};
  return rates;
}

RunSetup setup_of(const std::string& model, bool recompute = true,
                  const std::string& precision = "bf16") {
  Options options;
  options.model = model;
  options.micro_batch = 4;
  options.threads = 1;
  options.recompute = recompute;
  options.precision = precision;
  options.machine = "described.json";
  options.device_memory = std::int64_t{1} << 40;
  options.host_memory = std::int64_t{1} << 40;
  return make_run_setup(options, {}, {});
}

constexpr const char* kGpt2 = "gpt2:layers=2,hidden=128,heads=4,context=64,vocab=1000";
constexpr const char* kLlama =
    "llama:layers=2,hidden=128,heads=4,kv-heads=2,intermediate=320,context=64,vocab=1000";
constexpr double kRows = 4 * 64;
constexpr double kHidden = 128;

// Sums of a few terms in another order differ by a few roundings of double, 1e-16 each.
void expect_same(double derived, double written_out) {
  EXPECT_NEAR(derived / written_out, 1, 1e-12);
}

TEST(DerivedCompute, MatmulsAndAttentionTakeTheirFlops) {
  const double flops_per_s = 1e9;
  const ComputeCost cost = derive_compute(setup_of(kGpt2), gpu_rates(flops_per_s, kNever));
  // qkv 3C², out C², in and out 4C² each, two FLOPs for every weight and row.
  const double linear = 2 * kRows * 12 * kHidden * kHidden / flops_per_s;
  // Scores and sums over the (T + 1) / 2 tokens that one sees on average.
  const double attention = 2 * 2 * kRows * kHidden * 65 / 2 / flops_per_s;
  const double head = 2 * kRows * 1000 * kHidden / flops_per_s;
  expect_same(cost.block_forward[Work::matmul], linear);
  expect_same(cost.block_forward[Work::attention], attention);
  expect_same(cost.block_backward[Work::matmul], 2 * linear);
  expect_same(cost.block_backward[Work::attention], 2.5 * attention);
  // All of the forward but the MLP's output.
  expect_same(cost.block_recompute[Work::matmul], linear * 8 / 12);
  expect_same(cost.block_recompute[Work::attention], attention);
  expect_same(cost.head_forward[Work::matmul], head);
  expect_same(cost.head_backward[Work::matmul], 3 * head);
  EXPECT_LT(cost.embedding_forward.total(), 1e-15);
}

TEST(DerivedCompute, ElementwiseWorkIsPassesOverMemory) {
  const double bytes_per_s = 1e9;
  const ComputeCost cost = derive_compute(setup_of(kLlama), gpu_rates(kNever, bytes_per_s));
  const double pass_s = kRows * 2 / bytes_per_s;  // of one column in bf16
  // Two norms (in, out), two residuals (two in, one out), q and k (128 + 64 columns, in and out),
  // gate and up in, their product out.
  expect_same(cost.block_forward[Work::elementwise],
              pass_s * (2 * 2 * 128 + 2 * 3 * 128 + 2 * (128 + 64) + 3 * 320));
  // Without the last residual.
  expect_same(cost.block_recompute[Work::elementwise],
              pass_s * (2 * 2 * 128 + 3 * 128 + 2 * (128 + 64) + 3 * 320));
  expect_same(cost.block_backward[Work::elementwise],
              pass_s * (2 * 4 * 128 + 2 * (128 + 64) + 5 * 320 + 2 * 128));
  // Rows of the table in, the input out; no positions.
  expect_same(cost.embedding_forward[Work::elementwise], pass_s * 2 * 128);
  expect_same(cost.head_forward[Work::elementwise], pass_s * (2 * 128 + 2 * 1000));
}

TEST(DerivedCompute, AMatmulOfFewRowsIsBoundByItsWeights) {
  const double bytes_per_s = 1e9;
  const RunSetup setup = setup_of(kLlama, true, "f32");
  const ComputeCost cost = derive_compute(setup, gpu_rates(kNever, bytes_per_s));
  // (N, K) of q, k and v; attention's output; gate and up; the MLP's output. All f32.
  double bytes = 0;
  for (const auto& [n, k] : {std::pair(256.0, 128.0), std::pair(128.0, 128.0),
                             std::pair(640.0, 128.0), std::pair(128.0, 320.0)}) {
    bytes += 4 * (kRows * n + kRows * k + n * k);
  }
  expect_same(cost.block_forward[Work::matmul], bytes / bytes_per_s);
}

TEST(DerivedCompute, CoresAreCountedAsAGpuIs) {
  const RunSetup setup = setup_of(kLlama);
  MachineRates cores;
  cores.memory_bytes_per_s = 2e10;
  for (const ops::MatmulShape& shape : matmul_shapes(setup.shape)) {
    cores.matmuls.push_back({shape.kind, shape.n, shape.k, Dtype::bf16, 3e11});
  }
  const ComputeCost on_cores = derive_compute(setup, cores);
  const ComputeCost on_gpu = derive_compute(setup, gpu_rates(3e11, 2e10));
  EXPECT_EQ(on_cores.block_forward.of, on_gpu.block_forward.of);
  EXPECT_EQ(on_cores.head_backward.of, on_gpu.head_backward.of);
}

TEST(DerivedCompute, NothingIsRecomputedUnlessAskedFor) {
  const ComputeCost cost = derive_compute(setup_of(kGpt2, false), gpu_rates(1e9, 1e9));
  EXPECT_EQ(cost.block_recompute.total(), 0);
}

}  // namespace
}  // namespace strata::engine

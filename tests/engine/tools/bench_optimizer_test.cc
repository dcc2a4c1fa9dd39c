// OptimizerBench: the bytes it counts, figures that agree with each other; the command's refusals
// and its JSON.
#include "engine/tools/bench_optimizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/tools/bench_optimizer_command.h"
#include "kernels/base/error.h"
#include "tests/support/error_text.h"

namespace strata::engine {
namespace {

using test::error_text;
using test::mentions;

constexpr std::int64_t kElements = 1 << 16;

// docs/optimizer.md: bytes of a parameter's state and gradient.
TEST(OptimizerVariants, BytesAreThoseOfTheirState) {
  const auto bytes = [](const char* name) {
    const OptimizerVariant& variant = parse_optimizer_variant(name);
    return std::pair(variant.read_bytes(), variant.written_bytes());
  };
  EXPECT_EQ(bytes("f32-gradients"), std::pair(16.0, 12.0));
  EXPECT_EQ(bytes("bf16-gradients"), std::pair(14.0, 12.0));
  EXPECT_EQ(bytes("f32-masters"), std::pair(16.0, 12.0));
  EXPECT_EQ(bytes("bf16-moments"), std::pair(12.0, 8.0));
  EXPECT_EQ(bytes("int8-moments"), std::pair(10.0 + 1.0 / 32, 6.0 + 1.0 / 32));
  EXPECT_EQ(bytes("lion"), std::pair(12.0, 8.0));
}

TEST(OptimizerBench, MeasuresEveryVariant) {
  OptimizerBench bench(kElements + 100, best_isa());
  for (const int threads : {1, 2}) {
    WorkerSet workers(threads);
    for (const OptimizerVariant& variant : optimizer_variants()) {
      const OptimizerBenchCell cell = bench.measure(variant, workers, 3);
      EXPECT_EQ(cell.threads, threads);
      EXPECT_GT(cell.update_ns, 0) << variant.name;
      EXPECT_GT(cell.floor_ns, 0) << variant.name;
      const double bytes = variant.read_bytes() + variant.written_bytes();
      EXPECT_NEAR(cell.bytes_per_s() * cell.update_ns * 1e-9, bytes, 1e-6) << variant.name;
    }
  }
}

TEST(BenchOptimizerCommand, RefusesWhatItCannotMeasure) {
  const auto refusal = [](const auto& change) {
    Options options;
    change(options);
    return error_text<ConfigError>([&] { check_bench_optimizer_options(options); });
  };
  const auto refused = [&](const auto& change, const char* text) {
    EXPECT_TRUE(mentions(refusal(change), text)) << refusal(change);
  };
  refused([](Options& o) { o.variants = {"lion", "sgd"}; }, "--variants: 'sgd' is not one of");
  refused([](Options& o) { o.elements = 1000; }, "--elements is 1000");
  refused([](Options& o) { o.elements = std::int64_t{1} << 60; }, "memory that is free");
  refused([](Options& o) { o.threads = 0; }, "--threads is 0");
  refused([](Options& o) { o.isa = "sse"; }, "sse");
}

TEST(BenchOptimizerCommand, PrintsJson) {
  Options options;
  options.elements = kElements;
  options.threads = 1;
  options.variants = {"bf16-moments"};
  options.json = true;
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_bench_optimizer(options), 0);
  const auto json = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(json["elements"], kElements);
  ASSERT_EQ(json["cells"].size(), 1u);
  const auto& cell = json["cells"][0];
  EXPECT_EQ(cell["variant"], "bf16-moments");
  EXPECT_EQ(cell["threads"], 1);
  EXPECT_EQ(cell["read_bytes_per_parameter"], 12);
  EXPECT_GT(cell["share_of_floor"], 0);
}

}  // namespace
}  // namespace strata::engine

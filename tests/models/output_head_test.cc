// Properties of the head that hold whatever its numbers, and the loss against its definition;
// family_golden_test.cc checks the gradients.
#include "models/output_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/ops/cross_entropy.h"
#include "models/presets.h"
#include "tests/support/compare.h"
#include "tests/support/test_device.h"

namespace strata::models {
namespace {

// With a LayerNorm and an RMSNorm before the table.
constexpr const char* kModels[] = {
    "gpt2:layers=2,hidden=36,heads=3,context=24,vocab=61",
    "llama:layers=2,hidden=36,heads=3,context=24,vocab=61",
};
constexpr Batch kBatch{2, 5};
constexpr float kScale = 0.125f;

using strata::testing::largest;
using strata::testing::largest_difference;
using strata::testing::random_values;
using strata::testing::TestDevice;

class OutputHeadTest : public ::testing::TestWithParam<std::tuple<const char*, Dtype>> {
 protected:
  struct Outcome {
    double loss;
    std::vector<float> dx;
    std::vector<float> dtable;
    std::vector<float> dnorm;   // the final norm's unit
    std::vector<float> logits;  // (M, V)
    friend bool operator==(const Outcome&, const Outcome&) = default;
  };

  // A whole pass over the chunks (rows of each), by a head made for `limits`; fails the test when
  // it writes beyond what it asked for. The backward runs `backwards` times on one HeadMemory.
  Outcome run(const std::vector<std::int64_t>& chunks, const std::vector<std::int32_t>& targets,
              Batch limits = kBatch, int backwards = 1) {
    const OutputHead head(config_, dtype_, limits);
    Stream& stream = device_.stream();
    const std::int64_t c = config_.hidden;
    const std::int64_t m = kBatch.rows();
    const UnitSpec norm_unit = final_norm_unit(config_);
    const DeviceBuffer norm =
        device_.upload(random_values(dtype_, norm_unit.elements, 1, 1, 0.2f), dtype_);
    const DeviceBuffer table =
        device_.upload(random_values(dtype_, config_.vocabulary * c, 2, 0, 0.5f), dtype_);
    const DeviceBuffer x = device_.upload(random_values(dtype_, m * c, 3, 0, 3), dtype_);
    const DeviceBuffer dx = device_.allocate(m * c * bytes_of(dtype_));
    const DeviceBuffer dtable = device_.allocate(config_.vocabulary * c * bytes_of(Dtype::f32));
    const DeviceBuffer dnorm = device_.allocate(norm_unit.elements * bytes_of(Dtype::f32));
    const DeviceBuffer next = device_.upload(targets);
    const DeviceBuffer loss = device_.upload(std::vector<double>{0});
    const DeviceBuffer normed = device_.allocate_guarded(head.normed_bytes());
    const DeviceBuffer dnormed = device_.allocate_guarded(head.dnormed_bytes());
    const DeviceBuffer row_values = device_.allocate_guarded(head.rows_bytes());
    const HeadMemory memory{normed.data(), dnormed.data(), row_values.data()};
    const DeviceBuffer workspace = device_.allocate_guarded(head.workspace_bytes());
    const DeviceBuffer logits = device_.allocate(config_.vocabulary * bytes_of(Dtype::f32));
    const auto* next_ids = reinterpret_cast<const std::int32_t*>(next.data());
    const auto f32 = [](const DeviceBuffer& b) { return reinterpret_cast<float*>(b.data()); };

    const auto for_each_chunk = [&](const auto& body) {
      std::int64_t first = 0;
      for (const std::int64_t rows : chunks) {
        body(first, rows, table.data() + first * c * bytes_of(dtype_));
        first += rows;
      }
      STRATA_CHECK(first == config_.vocabulary);
    };
    head.final_norm_forward(stream, kBatch, norm.data(), x.data(), memory);
    for_each_chunk([&](std::int64_t first, std::int64_t rows, const std::byte* piece) {
      head.chunk_forward(stream, kBatch, piece, first, rows, memory, next_ids, workspace.data());
    });
    head.finish_loss(stream, kBatch, memory, next_ids, reinterpret_cast<double*>(loss.data()));
    for (int i = 0; i < backwards; ++i) {
      for_each_chunk([&](std::int64_t first, std::int64_t rows, const std::byte* piece) {
        head.chunk_backward(stream, kBatch, piece, f32(dtable) + first * c, ops::Into::overwrite,
                            first, rows, memory, next_ids, kScale, workspace.data());
      });
    }
    head.final_norm_backward(stream, kBatch, norm.data(), f32(dnorm), ops::Into::overwrite,
                             x.data(), memory, dx.data());
    Outcome outcome;
    for (std::int64_t row = 0; row < m; ++row) {
      for_each_chunk([&](std::int64_t first, std::int64_t rows, const std::byte* piece) {
        head.logits_of_row(stream, piece, rows, memory, row, f32(logits) + first);
      });
      const auto values = device_.read<float>(logits.data(), config_.vocabulary);
      outcome.logits.insert(outcome.logits.end(), values.begin(), values.end());
    }
    device_.expect_guard(normed, head.normed_bytes());
    device_.expect_guard(dnormed, head.dnormed_bytes());
    device_.expect_guard(row_values, head.rows_bytes());
    device_.expect_guard(workspace, head.workspace_bytes());
    outcome.loss = device_.read<double>(loss.data(), 1).front();
    outcome.dx = device_.read(dx.data(), m * c, dtype_);
    outcome.dtable = device_.read<float>(dtable.data(), config_.vocabulary * c);
    outcome.dnorm = device_.read<float>(dnorm.data(), norm_unit.elements);
    return outcome;
  }

  const std::vector<std::int32_t> targets_{0, 60, 17, ops::kIgnoredTarget, 19, 20, 20, 59, 33, 5};
  ModelConfig config_ = parse_model(std::get<const char*>(GetParam()));
  Dtype dtype_ = std::get<Dtype>(GetParam());
  TestDevice device_{{.weight_rows_max = config_.vocabulary,
                      .weight_cols_max = config_.hidden,
                      .rows_max = 16,
                      .tokens_max = 8,
                      .head_dim = config_.head_dim},
                     dtype_};
};

// -log softmax in double of the logits that logits_of_row() gives. Each row's loss is made of f32
// numbers below 16 with a few roundings: 10 rows × 16 × 8 × 2^-24.
TEST_P(OutputHeadTest, LossIsTheSumOfCrossEntropies) {
  const Outcome outcome = run({61}, targets_);
  double expected = 0;
  for (std::int64_t row = 0; row < kBatch.rows(); ++row) {
    if (targets_[row] == ops::kIgnoredTarget) continue;
    const float* const logits = outcome.logits.data() + row * config_.vocabulary;
    double sum = 0;
    for (std::int64_t id = 0; id < config_.vocabulary; ++id) sum += std::exp(double{logits[id]});
    expected += std::log(sum) - double{logits[targets_[row]]};
  }
  EXPECT_NEAR(outcome.loss, expected, 10 * 16 * 8 * 0x1p-24);
}

// f32: the softmax's sum and dnormed are summed in another order: a few roundings of 2^-24. bf16:
// logits and sums are f32 too, so that a rounding to bf16 of dlogits or dx changes its mind at
// most: one unit of 2^-8 of an entry.
TEST_P(OutputHeadTest, ChunksDoNotChangeTheResult) {
  const Outcome whole = run({61}, targets_);
  const double tolerance = dtype_ == Dtype::f32 ? 16 * 0x1p-24 : 0x1p-8;
  for (const auto& chunks : {std::vector<std::int64_t>{20, 41}, {1, 59, 1}, {17, 3, 40, 1}}) {
    const Outcome cut = run(chunks, targets_);
    EXPECT_NEAR(cut.loss, whole.loss, 16 * 0x1p-24 * whole.loss);
    EXPECT_LE(largest_difference(cut.dx, whole.dx), tolerance * largest(whole.dx));
    EXPECT_LE(largest_difference(cut.dtable, whole.dtable), tolerance * largest(whole.dtable));
    EXPECT_LE(largest_difference(cut.dnorm, whole.dnorm), tolerance * largest(whole.dnorm));
  }
}

TEST_P(OutputHeadTest, IgnoredTargetsCountForNothing) {
  const Outcome some = run({20, 41}, targets_);
  const std::int64_t c = config_.hidden;
  for (std::int64_t row = 0; row < kBatch.rows(); ++row) {
    const std::vector<float> dx(some.dx.begin() + row * c, some.dx.begin() + (row + 1) * c);
    EXPECT_EQ(largest(dx) == 0, targets_[row] == ops::kIgnoredTarget) << "row " << row;
  }
  const Outcome none =
      run({20, 41}, std::vector<std::int32_t>(targets_.size(), ops::kIgnoredTarget));
  EXPECT_EQ(none.loss, 0);
  EXPECT_EQ(largest(none.dx), 0);
  EXPECT_EQ(largest(none.dtable), 0);
  EXPECT_EQ(largest(none.dnorm), 0);
}

TEST_P(OutputHeadTest, TheFirstChunkStartsTheRecordsGradientAfresh) {
  EXPECT_EQ(run({20, 41}, targets_, kBatch, 2), run({20, 41}, targets_, kBatch, 1));
}

TEST_P(OutputHeadTest, ASmallerBatchDoesNotDependOnTheLimits) {
  EXPECT_EQ(run({20, 41}, targets_, {2, 8}), run({20, 41}, targets_, kBatch));
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<const char*, Dtype>>& info) {
  const auto& [model, dtype] = info.param;
  return std::string(name_of(parse_model(model).family)) + "_" + name_of(dtype);
}

INSTANTIATE_TEST_SUITE_P(Models, OutputHeadTest,
                         ::testing::Combine(::testing::ValuesIn(kModels),
                                            ::testing::Values(Dtype::f32, Dtype::bf16)),
                         name_of_case);

// 50257 = 9 × 5440 + 1297.
TEST(OutputHeadCost, ListsTheTwoSizesOfChunks) {
  const OutputHead head(parse_model("gpt2-124m"), Dtype::bf16, {2, 1024});
  std::vector<std::int64_t> chunk_rows;
  for (const ops::MatmulShape& shape : head.matmul_shapes()) {
    EXPECT_EQ(shape.k, 768);
    EXPECT_EQ(shape.rows, 2048);
    if (shape.kind == ops::MatmulKind::backward_weight) chunk_rows.push_back(shape.n);
  }
  EXPECT_EQ(chunk_rows, (std::vector<std::int64_t>{5440, 1297}));
  EXPECT_DOUBLE_EQ(head.forward_flops({2, 1024}), 2.0 * 2048 * 50257 * 768);
}

}  // namespace
}  // namespace strata::models

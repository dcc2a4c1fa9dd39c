#include "kernels/ops/cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/kernels/ops/op_testing.h"

namespace strata::ops {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Logits of a whole vocabulary, visited in chunks.
class Walk {
 public:
  Walk(TestDevice& device, std::int64_t rows, std::int64_t vocabulary,
       const std::vector<float>& logits, const std::vector<std::int32_t>& targets)
      : device_(device),
        logits_(device, Dtype::f32, rows, vocabulary, 5, logits),
        stats_memory_(device, Dtype::f32, 3, rows, 0, std::vector<float>(3 * rows, 99)),
        targets_(device.upload(targets)),
        loss_(device.upload(std::vector<double>{2.5})),
        counts_(device.upload(std::vector<std::int64_t>{100, 10})),
        stats_{stats_memory_.f32(), stats_memory_.f32() + rows, stats_memory_.f32() + 2 * rows} {}

  void forward(std::int64_t chunk) {
    softmax_stats_init(device_.stream(), stats_, rows());
    for (std::int64_t first = 0; first < vocabulary(); first += chunk) {
      softmax_stats_update(device_.stream(), stats_, columns(logits_.view(), first, chunk),
                           targets(), first);
    }
    cross_entropy_loss(device_.stream(), reinterpret_cast<double*>(loss_.data()), stats_, targets(),
                       rows(), reinterpret_cast<TargetCounts*>(counts_.data()));
  }
  void backward(std::int64_t chunk, Matrix dlogits, float scale) {
    for (std::int64_t first = 0; first < vocabulary(); first += chunk) {
      cross_entropy_backward(device_.stream(), columns(dlogits, first, chunk),
                             columns(logits_.view(), first, chunk), stats_, targets(), first,
                             scale);
    }
  }

  const DeviceMatrix& logits() const { return logits_; }
  const DeviceMatrix& stats() const { return stats_memory_; }
  double loss() const { return device_.read<double>(loss_.data(), 1)[0]; }
  TargetCounts counts() const { return device_.read<TargetCounts>(counts_.data(), 1)[0]; }
  std::int64_t rows() const { return logits_.view().rows; }
  std::int64_t vocabulary() const { return logits_.view().cols; }

 private:
  static Matrix columns(Matrix all, std::int64_t first, std::int64_t count) {
    all.data = static_cast<std::byte*>(all.data) + first * bytes_of(all.dtype);
    all.cols = std::min(count, all.cols - first);
    return all;
  }
  const std::int32_t* targets() const {
    return reinterpret_cast<const std::int32_t*>(targets_.data());
  }

  TestDevice& device_;
  DeviceMatrix logits_;
  DeviceMatrix stats_memory_;
  DeviceBuffer targets_;
  DeviceBuffer loss_;
  DeviceBuffer counts_;
  SoftmaxStats stats_;
};

std::vector<std::int32_t> some_targets(std::int64_t rows, std::int64_t vocabulary) {
  std::vector<std::int32_t> targets;
  for (std::int64_t row = 0; row < rows; ++row) {
    targets.push_back(row % 5 == 3 ? kIgnoredTarget
                                   : static_cast<std::int32_t>(row * 7919 % vocabulary));
  }
  return targets;
}

std::vector<double> log_softmax(const double* logits, std::int64_t vocabulary) {
  const double largest = *std::max_element(logits, logits + vocabulary);
  double sum = 0;
  for (std::int64_t i = 0; i < vocabulary; ++i) sum += std::exp(logits[i] - largest);
  std::vector<double> result;
  for (std::int64_t i = 0; i < vocabulary; ++i)
    result.push_back(logits[i] - largest - std::log(sum));
  return result;
}

struct Case {
  std::int64_t vocabulary;
  std::int64_t chunk;
  float spread;  // of the logits, about 20
};

class CrossEntropy : public ::testing::TestWithParam<Case> {};

// Each exp has the rounding of its argument (|logit - max| <= 2 · spread) and two of its own; a
// sum of V terms in 16 lanes has V/16 + 4 more, and one rescaling per chunk.
TEST_P(CrossEntropy, LossAndGradientMatchTheFormula) {
  const auto [vocabulary, chunk, spread] = GetParam();
  const std::int64_t rows = 37;
  const float scale = 1.0f / 64;
  const auto targets = some_targets(rows, vocabulary);
  const double rounding =
      (static_cast<double>(vocabulary) / 16 +
       4 * static_cast<double>(vocabulary) / static_cast<double>(chunk) + 2 * spread + 16) *
      kF32Rounding;
  TestDevice device;
  Walk walk(device, rows, vocabulary, random_values(Dtype::f32, rows * vocabulary, 1, 20, spread),
            targets);
  walk.forward(chunk);

  DeviceMatrix dlogits(device, Dtype::f32, rows, vocabulary, 2,
                       std::vector<float>(rows * vocabulary, 7));
  DeviceMatrix rounded(device, Dtype::bf16, rows, vocabulary, 1,
                       std::vector<float>(rows * vocabulary, 7));
  walk.backward(chunk, dlogits.view(), scale);
  walk.backward(chunk, rounded.view(), scale);

  const auto logits = walk.logits().get_f64(), gradient = dlogits.get_f64(),
             gradient_bf16 = rounded.get_f64();
  double expected_loss = 2.5;
  TargetCounts expected_counts{100, 10};  // what was there before
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto log_p = log_softmax(&logits[row * vocabulary], vocabulary);
    const bool ignored = targets[row] == kIgnoredTarget;
    if (!ignored) {
      expected_loss -= log_p[targets[row]];
      ++expected_counts.targets;
      expected_counts.correct += log_p[targets[row]] == std::ranges::max(log_p);
    }
    for (std::int64_t i = 0; i < vocabulary; ++i) {
      const double p = ignored ? 0 : std::exp(log_p[i]);
      const double expected = scale * (p - (i == targets[row] ? 1 : 0));
      // The subtraction at the target rounds relative to its result.
      const double tolerance = rounding * scale * p + kF32Rounding * std::abs(expected);
      ASSERT_NEAR(gradient[row * vocabulary + i], expected, tolerance);
      ASSERT_NEAR(gradient_bf16[row * vocabulary + i], expected,
                  tolerance + kBf16Rounding * std::abs(expected));
    }
  }
  EXPECT_NEAR(walk.loss(), expected_loss, rounding * rows);
  EXPECT_EQ(walk.counts().targets, expected_counts.targets);
  EXPECT_EQ(walk.counts().correct, expected_counts.correct);

  walk.backward(chunk, walk.logits().view(), scale);
  EXPECT_EQ(walk.logits().get_f64(), gradient) << "in place";
}

INSTANTIATE_TEST_SUITE_P(Sizes, CrossEntropy,
                         ::testing::Values(Case{1, 1, 3}, Case{7, 7, 3}, Case{16, 16, 9},
                                           Case{48, 16, 9}, Case{1000, 1000, 3}, Case{1000, 384, 9},
                                           Case{1000, 7, 24}));

// Whatever the chunk that the largest logit is in; a tie counts, a NaN and an ignored row do not.
TEST(CrossEntropyRows, ATargetThatNoLogitIsLargerThanIsCorrect) {
  const std::vector<float> logits = {5, 1, 2,    3,   // largest in the first chunk
                                     1, 2, 3,    5,   // and in the last
                                     1, 5, 2,    5,   // in both
                                     1, 2, 5,    3,   // not the target
                                     5, 1, kNaN, 3,   // of no use
                                     9, 1, 2,    3};  // ignored
  TestDevice device;
  Walk walk(device, 6, 4, logits, {0, 3, 1, 3, 2, kIgnoredTarget});
  walk.forward(2);
  EXPECT_EQ(walk.counts().targets, 100 + 5);
  EXPECT_EQ(walk.counts().correct, 10 + 3);
}

TEST(CrossEntropyRows, HugeLogitsDoNotOverflow) {
  TestDevice device;
  Walk walk(device, 2, 4, {3e38, 0, -3e38, 1, -1e30, -1e30, -1e30, -1e30}, {0, 2});
  walk.forward(2);
  EXPECT_NEAR(walk.loss(), 2.5 + std::log(4.0), 1e-6);
}

TEST(CrossEntropyRows, MinusInfinityIsProbabilityZero) {
  const float none = -std::numeric_limits<float>::infinity();
  TestDevice device;
  Walk walk(device, 1, 4, {none, none, 0, 0}, {3});  // the first chunk has no finite logit
  walk.forward(2);
  EXPECT_NEAR(walk.loss(), 2.5 + std::log(2.0), 1e-6);
  walk.backward(2, walk.logits().view(), 1.0f);
  EXPECT_EQ(walk.logits().get(), (std::vector<float>{0, 0, 0.5, -0.5}));
}

TEST(CrossEntropyRows, ANonFiniteLogitShowsInTheLossUnlessItsRowIsIgnored) {
  for (const std::int32_t second_target : {kIgnoredTarget, 1}) {
    TestDevice device;
    Walk walk(device, 2, 3, {1, 1, 1, kNaN, 1, 1}, {0, second_target});
    walk.forward(3);
    EXPECT_EQ(std::isnan(walk.loss()), second_target != kIgnoredTarget);
    if (second_target != kIgnoredTarget) continue;
    walk.backward(3, walk.logits().view(), 1.0f);
    const auto gradient = walk.logits().get();
    EXPECT_EQ(std::vector<float>(gradient.begin() + 3, gradient.end()), std::vector<float>(3, 0));
  }
}

TEST(CrossEntropyBits, AreTheSameForEveryInstructionSetAndNumberOfWorkers) {
  const std::int64_t rows = 67, vocabulary = 777, chunk = 256;
  expect_same_bits_everywhere([&](TestDevice& device) {
    Walk walk(device, rows, vocabulary, random_values(Dtype::f32, rows * vocabulary, 1, 0, 12),
              some_targets(rows, vocabulary));
    walk.forward(chunk);
    DeviceMatrix dlogits(device, Dtype::bf16, rows, vocabulary, 2);
    walk.backward(chunk, dlogits.view(), 0.01f);
    walk.backward(chunk, walk.logits().view(), 0.01f);
    const double loss = walk.loss();
    std::vector<std::byte> loss_bytes(sizeof loss);
    std::memcpy(loss_bytes.data(), &loss, sizeof loss);
    return Outputs{walk.stats().bytes(), dlogits.bytes(), walk.logits().bytes(), loss_bytes};
  });
}

}  // namespace
}  // namespace strata::ops

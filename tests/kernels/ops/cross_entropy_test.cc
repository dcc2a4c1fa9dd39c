#include "kernels/ops/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "tests/kernels/ops/op_runner.h"

namespace strata::ops {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Logits of a whole vocabulary, visited in chunks.
class Walk {
 public:
  Walk(OpRunner& runner, std::int64_t rows, std::int64_t vocabulary,
       const std::vector<double>& logits, const std::vector<std::int32_t>& targets)
      : runner_(runner),
        logits_(runner, Dtype::f32, rows, vocabulary, 5, logits),
        stats_memory_(runner, Dtype::f32, 3, rows, 0, std::vector<double>(3 * rows, 99)),
        targets_(runner.upload(targets)),
        loss_(runner.upload(std::vector<double>{2.5})),
        stats_{stats_memory_.f32(), stats_memory_.f32() + rows, stats_memory_.f32() + 2 * rows} {}

  void forward(std::int64_t chunk) {
    softmax_stats_init(runner_.stream(), stats_, rows());
    for (std::int64_t first = 0; first < vocabulary(); first += chunk) {
      softmax_stats_update(runner_.stream(), stats_, columns(logits_.view(), first, chunk),
                           targets(), first);
    }
    cross_entropy_loss(runner_.stream(), reinterpret_cast<double*>(loss_.data()), stats_, targets(),
                       rows());
  }
  void backward(std::int64_t chunk, Matrix dlogits, float scale) {
    for (std::int64_t first = 0; first < vocabulary(); first += chunk) {
      cross_entropy_backward(runner_.stream(), columns(dlogits, first, chunk),
                             columns(logits_.view(), first, chunk), stats_, targets(), first,
                             scale);
    }
  }

  const DeviceMatrix& logits() const { return logits_; }
  const DeviceMatrix& stats() const { return stats_memory_; }
  double loss() const { return runner_.download<double>(loss_, 1)[0]; }
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

  OpRunner& runner_;
  DeviceMatrix logits_;
  DeviceMatrix stats_memory_;
  DeviceBuffer targets_;
  DeviceBuffer loss_;
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
  double deviation;
};

class CrossEntropy : public testing::TestWithParam<Case> {};

// Each exp has the rounding of its argument (|logit - max| < 16 · deviation) and two of its own; a
// sum of V terms in 16 lanes has V/16 + 4 more, and one rescaling per chunk.
TEST_P(CrossEntropy, LossAndGradientMatchTheFormula) {
  const auto [vocabulary, chunk, deviation] = GetParam();
  const std::int64_t rows = 37;
  const float scale = 1.0f / 64;
  const auto targets = some_targets(rows, vocabulary);
  const double rounding =
      (static_cast<double>(vocabulary) / 16 +
       4 * static_cast<double>(vocabulary) / static_cast<double>(chunk) + 16 * deviation + 16) *
      kF32Rounding;
  OpRunner runner;
  Walk walk(runner, rows, vocabulary, random_values(1, rows * vocabulary, 20, deviation), targets);
  walk.forward(chunk);

  DeviceMatrix dlogits(runner, Dtype::f32, rows, vocabulary, 2,
                       std::vector<double>(rows * vocabulary, 7));
  DeviceMatrix rounded(runner, Dtype::bf16, rows, vocabulary, 1,
                       std::vector<double>(rows * vocabulary, 7));
  walk.backward(chunk, dlogits.view(), scale);
  walk.backward(chunk, rounded.view(), scale);

  const auto logits = walk.logits().values(), gradient = dlogits.values(),
             gradient_bf16 = rounded.values();
  double expected_loss = 2.5;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto log_p = log_softmax(&logits[row * vocabulary], vocabulary);
    const bool ignored = targets[row] == kIgnoredTarget;
    if (!ignored) expected_loss -= log_p[targets[row]];
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

  walk.backward(chunk, walk.logits().view(), scale);
  EXPECT_EQ(walk.logits().values(), gradient) << "in place";
}

INSTANTIATE_TEST_SUITE_P(Sizes, CrossEntropy,
                         testing::Values(Case{1, 1, 1}, Case{7, 7, 1}, Case{16, 16, 3},
                                         Case{48, 16, 3}, Case{1000, 1000, 1}, Case{1000, 384, 3},
                                         Case{1000, 7, 8}));

TEST(CrossEntropyRows, HugeLogitsDoNotOverflow) {
  OpRunner runner;
  Walk walk(runner, 2, 4, {3e38, 0, -3e38, 1, -1e30, -1e30, -1e30, -1e30}, {0, 2});
  walk.forward(2);
  EXPECT_NEAR(walk.loss(), 2.5 + std::log(4.0), 1e-6);
}

TEST(CrossEntropyRows, MinusInfinityIsProbabilityZero) {
  const double none = -std::numeric_limits<double>::infinity();
  OpRunner runner;
  Walk walk(runner, 1, 4, {none, none, 0, 0}, {3});  // the first chunk has no finite logit
  walk.forward(2);
  EXPECT_NEAR(walk.loss(), 2.5 + std::log(2.0), 1e-6);
  walk.backward(2, walk.logits().view(), 1.0f);
  EXPECT_EQ(walk.logits().values(), (std::vector<double>{0, 0, 0.5, -0.5}));
}

TEST(CrossEntropyRows, ANonFiniteLogitShowsInTheLossUnlessItsRowIsIgnored) {
  for (const std::int32_t second_target : {kIgnoredTarget, 1}) {
    OpRunner runner;
    Walk walk(runner, 2, 3, {1, 1, 1, kNaN, 1, 1}, {0, second_target});
    walk.forward(3);
    EXPECT_EQ(std::isnan(walk.loss()), second_target != kIgnoredTarget);
    if (second_target != kIgnoredTarget) continue;
    walk.backward(3, walk.logits().view(), 1.0f);
    const auto gradient = walk.logits().values();
    EXPECT_EQ(std::vector<double>(gradient.begin() + 3, gradient.end()), std::vector<double>(3, 0));
  }
}

TEST(CrossEntropyBits, AreTheSameForEveryInstructionSetAndNumberOfWorkers) {
  const std::int64_t rows = 67, vocabulary = 777, chunk = 256;
  expect_same_bits_everywhere([&](OpRunner& runner) {
    Walk walk(runner, rows, vocabulary, random_values(1, rows * vocabulary, 0, 4),
              some_targets(rows, vocabulary));
    walk.forward(chunk);
    DeviceMatrix dlogits(runner, Dtype::bf16, rows, vocabulary, 2,
                         std::vector<double>(rows * vocabulary));
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

// A whole GPT-2, forward and backward, against PyTorch's numbers (tests/golden/README.md).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/presets.h"
#include "tests/models/resident_model.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"

namespace strata::models {
namespace {

using strata::testing::Golden;
using strata::testing::largest;
using strata::testing::largest_difference;

const Golden& golden() {
  static const Golden kGolden("gpt2_tiny");
  return kGolden;
}

ModelConfig tiny_config() {
  const auto& sizes = golden().section("config");
  return parse_model(fmt::format("gpt2:layers={},hidden={},heads={},context={},vocab={}",
                                 sizes.at("layers").get<int>(), sizes.at("hidden").get<int>(),
                                 sizes.at("heads").get<int>(), sizes.at("context").get<int>(),
                                 sizes.at("vocabulary").get<int>()));
}

constexpr std::int64_t kSequences = 3;
constexpr std::int64_t kTokens = 17;
constexpr double kTargets = kSequences * kTokens - 1;  // one is ignored

struct Case {
  std::string name;
  Arithmetic arithmetic;
  Cut cut;
  int threads = 2;
};

const Cut kWhole{{3}, {61}};
const Cut kPieces{{1, 1, 1}, {20, 1, 40}};
const Cut kPartialLast{{2, 1}, {32, 29}};

struct Result {
  double loss;
  std::vector<float> logits;
  std::map<std::string, std::vector<float>> gradients;
};

Result run(const Case& test) {
  const Batch limits{*std::ranges::max_element(test.cut.micro_batches), kTokens};
  ResidentModel model(
      tiny_config(), test.arithmetic, limits,
      [](const std::string& name) { return golden().get("weights/" + name); }, test.threads);
  const auto batch = [](const std::string& name) {
    return golden().get_i32(name).first(kSequences * kTokens);
  };
  Result result;
  result.loss = model.step(test.cut, batch("tokens"), batch("some_targets"), kTokens,
                           static_cast<float>(1 / kTargets)) /
                kTargets;
  for (std::size_t i = 0; i < test.cut.micro_batches.size(); ++i) {
    const std::vector<float> logits = model.logits(test.cut, i);
    result.logits.insert(result.logits.end(), logits.begin(), logits.end());
  }
  result.gradients = model.gradients();
  return result;
}

// Relative to a tensor's largest entry. A number passes about 22 roundings per block (forward and
// backward) and 6 around them, 50 in all; as independent errors they add up to sqrt(50) = 7 of one.
//  f32: one is u = 2^-24 times about sqrt(144), the longest sum: 7 × 12 u = 5e-6; twice that.
//  bf16: sums are f32, and one rounding to bf16 is u = 2^-9: 7 u = 1.4e-2; twice that.
double tolerance(Dtype activations) { return activations == Dtype::f32 ? 1e-5 : 2.8e-2; }

class Gpt2Golden : public ::testing::TestWithParam<Case> {
 protected:
  double tolerance_ = tolerance(GetParam().arithmetic.activations);
};

TEST_P(Gpt2Golden, LogitsAndLoss) {
  const Result result = run(GetParam());
  const auto logits = golden().get("logits");
  EXPECT_LE(largest_difference(result.logits, logits), tolerance_ * largest(logits));
  // A mean over 50 targets, so that independent errors shrink by sqrt(50) = 7.
  EXPECT_NEAR(result.loss, golden().get("loss")[0], tolerance_ * largest(logits) / 7);
}

TEST_P(Gpt2Golden, EveryGradient) {
  const Result result = run(GetParam());
  for (const UnitSpec& unit : model_units(tiny_config())) {
    const std::span<const float> gradients = result.gradients.at(unit.name);
    for (const TensorSpec& tensor : unit.tensors) {
      const auto expected = golden().get("gradients/" + tensor.name);
      const auto computed = gradients.subspan(tensor.offset_elements, tensor.elements());
      EXPECT_LE(largest_difference(computed, expected), tolerance_ * largest(expected))
          << tensor.name;
    }
  }
}

// Softmax does not see a key's bias, so its gradient is zero: what is left is rounding noise, which
// is bounded by the whole gradient's norm and not by its own largest entry.
TEST_P(Gpt2Golden, KeyBiasesHaveNoGradient) {
  const Result result = run(GetParam());
  const ModelConfig config = tiny_config();
  const double norm = golden().get("gradient_norm")[0];
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const auto [unit, tensors] = block_unit(config, layer);
    const std::span<const float> gradients = result.gradients.at(unit.name);
    const auto key_bias = gradients.subspan(
        unit.tensors[tensors.qkv_bias.first].offset_elements + config.hidden, config.hidden);
    EXPECT_LE(largest(key_bias), tolerance_ / 7 * norm) << unit.name;
  }
}

TEST_P(Gpt2Golden, GapsBetweenGradientsAreZero) {
  const Result result = run(GetParam());
  std::int64_t gap_elements = 0;
  for (const UnitSpec& unit : model_units(tiny_config())) {
    std::vector<float> gradients = result.gradients.at(unit.name);
    for (const TensorSpec& tensor : unit.tensors) {
      std::fill_n(gradients.begin() + tensor.offset_elements, tensor.elements(), 0.0f);
      gap_elements -= tensor.elements();
    }
    gap_elements += unit.elements;
    EXPECT_EQ(largest(gradients), 0) << unit.name;
  }
  EXPECT_GT(gap_elements, 0);
}

const Arithmetic kF32{Dtype::f32, Dtype::f32};
const Arithmetic kBf16{Dtype::bf16, Dtype::bf16};
const Arithmetic kBf16Widened{Dtype::bf16, Dtype::f32};

INSTANTIATE_TEST_SUITE_P(Cuts, Gpt2Golden,
                         ::testing::Values(Case{"f32_whole", kF32, kWhole},
                                           Case{"f32_pieces", kF32, kPieces},
                                           Case{"f32_partial_last", kF32, kPartialLast},
                                           Case{"bf16_whole", kBf16, kWhole},
                                           Case{"bf16_partial_last", kBf16, kPartialLast},
                                           Case{"bf16_widened_pieces", kBf16Widened, kPieces}),
                         [](const auto& info) { return info.param.name; });

TEST(Gpt2Step, BitsDoNotDependOnTheNumberOfThreads) {
  for (const Arithmetic arithmetic : {kF32, kBf16}) {
    const Result one = run({"one", arithmetic, kPieces, 1});
    const Result three = run({"three", arithmetic, kPieces, 3});
    EXPECT_EQ(one.loss, three.loss);
    EXPECT_EQ(one.logits, three.logits);
    EXPECT_EQ(one.gradients, three.gradients);
  }
}

}  // namespace
}  // namespace strata::models

// Whole models of every family, forward and backward, against PyTorch's numbers: GPT-2 as written
// from the paper, the others as transformers runs them (tests/golden/README.md).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "models/hf_config.h"
#include "models/presets.h"
#include "tests/models/resident_model.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"

namespace strata::models {
namespace {

using strata::testing::Golden;
using strata::testing::largest;
using strata::testing::largest_difference;

constexpr std::int64_t kSequences = 3;
constexpr std::int64_t kTokens = 17;
constexpr double kTargets = kSequences * kTokens - 1;  // one is ignored

enum class Documents { one_per_sequence, packed };

// Of the sequences of a golden, and what it says of them.
struct Model {
  std::string stem;
  Documents documents = Documents::one_per_sequence;

  const Golden& golden() const {
    static std::map<std::string, Golden> kept;
    return kept.try_emplace(stem, stem).first->second;
  }
  ModelConfig config() const {
    const auto& config = golden().section("config");
    if (stem != "gpt2_tiny") return parse_hf_config(config.dump()).config;
    return parse_model(fmt::format("gpt2:layers={},hidden={},heads={},context={},vocab={}",
                                   config.at("layers").get<int>(), config.at("hidden").get<int>(),
                                   config.at("heads").get<int>(), config.at("context").get<int>(),
                                   config.at("vocabulary").get<int>()));
  }
  ResidentModel::Input input() const {
    const auto batch = [&](const std::string& name) {
      return golden().get_i32(name).first(kSequences * kTokens);
    };
    ResidentModel::Input input{batch("tokens"), batch("some_targets"), kTokens, {}};
    if (documents == Documents::packed) input.document_starts = batch("packed/document_starts");
    return input;
  }
  std::span<const float> expected(const std::string& name) const {
    return golden().get((documents == Documents::packed ? "packed/" : "") + name);
  }
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.stem; }

const Model kModels[] = {{"gpt2_tiny"},
                         {"llama_tiny"},
                         {"llama_untied_tiny"},
                         {"mistral_tiny"},
                         {"mistral_tiny", Documents::packed},
                         {"qwen2_tiny"},
                         {"qwen3_tiny"}};

struct Way {
  std::string name;
  Arithmetic arithmetic;
  Cut cut;
  int threads = 2;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

const Arithmetic kF32{Dtype::f32, Dtype::f32};
const Arithmetic kBf16{Dtype::bf16, Dtype::bf16};
const Arithmetic kBf16Widened{Dtype::bf16, Dtype::f32};

const Cut kWhole{{3}, {61}};
const Cut kPieces{{1, 1, 1}, {20, 1, 40}};
const Cut kPartialLast{{2, 1}, {32, 29}};

const Way kWays[] = {{"f32_whole", kF32, kWhole},
                     {"f32_pieces", kF32, kPieces},
                     {"f32_partial_last", kF32, kPartialLast},
                     {"bf16_whole", kBf16, kWhole},
                     {"bf16_partial_last", kBf16, kPartialLast},
                     {"bf16_widened_pieces", kBf16Widened, kPieces}};

struct Result {
  double loss;
  std::vector<float> logits;
  std::map<std::string, std::vector<float>> gradients;
};

Result run(const Model& test, const Way& way) {
  const Batch limits{*std::ranges::max_element(way.cut.micro_batches), kTokens};
  ResidentModel model(
      test.config(), way.arithmetic, limits,
      [&](const std::string& name) { return test.golden().get("weights/" + name); }, way.threads);
  Result result;
  result.loss = model.step(way.cut, test.input(), static_cast<float>(1 / kTargets)) / kTargets;
  for (std::size_t i = 0; i < way.cut.micro_batches.size(); ++i) {
    const std::vector<float> logits = model.logits(way.cut, i);
    result.logits.insert(result.logits.end(), logits.begin(), logits.end());
  }
  result.gradients = model.gradients();
  return result;
}

// Relative to a tensor's largest entry. In GPT-2 a number passes about 22 roundings per block
// (forward and backward) and 6 around them, 50 in all; as independent errors they add up to
// sqrt(50) = 7 of one. The other families' MLP multiplies two numbers that have each passed all
// before it: 25 more, 9 of one.
//  f32: one is u = 2^-24 times about sqrt(144), the longest sum: 7 × 12 u = 5e-6; twice that.
//  bf16: sums are f32, and one rounding to bf16 is u = 2^-9: 7 u = 1.4e-2, or 9 u = 1.75e-2; twice
//  that.
double tolerance(const Model& model, const Way& way) {
  if (way.arithmetic.activations == Dtype::f32) return 1e-5;
  return model.stem == "gpt2_tiny" ? 2.8e-2 : 3.5e-2;
}

class FamilyGolden : public ::testing::TestWithParam<std::tuple<Model, Way>> {
 protected:
  const Model& model() const { return std::get<Model>(GetParam()); }
  const Way& way() const { return std::get<Way>(GetParam()); }
  Result run() const { return models::run(model(), way()); }
  double tolerance_ = tolerance(model(), way());
};

TEST_P(FamilyGolden, LogitsAndLoss) {
  const Result result = run();
  const auto logits = model().expected("logits");
  EXPECT_LE(largest_difference(result.logits, logits), tolerance_ * largest(logits));
  // A mean over 50 targets, so that independent errors shrink by sqrt(50) = 7.
  EXPECT_NEAR(result.loss, model().expected("loss")[0], tolerance_ * largest(logits) / 7);
}

TEST_P(FamilyGolden, EveryGradient) {
  const Result result = run();
  for (const UnitSpec& unit : model_units(model().config())) {
    const std::span<const float> gradients = result.gradients.at(unit.name);
    for (const TensorSpec& tensor : unit.tensors) {
      const auto expected = model().expected("gradients/" + tensor.name);
      const auto computed = gradients.subspan(tensor.offset_elements, tensor.elements());
      EXPECT_LE(largest_difference(computed, expected), tolerance_ * largest(expected))
          << tensor.name;
    }
  }
}

TEST_P(FamilyGolden, GapsBetweenGradientsAreZero) {
  const Result result = run();
  std::int64_t gap_elements = 0;
  for (const UnitSpec& unit : model_units(model().config())) {
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

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<Model, Way>>& info) {
  const auto& [model, way] = info.param;
  return model.stem + (model.documents == Documents::packed ? "_packed_" : "_") + way.name;
}

INSTANTIATE_TEST_SUITE_P(All, FamilyGolden,
                         ::testing::Combine(::testing::ValuesIn(kModels),
                                            ::testing::ValuesIn(kWays)),
                         name_of_case);

class FamilyBits : public ::testing::TestWithParam<Model> {};

TEST_P(FamilyBits, DoNotDependOnTheNumberOfThreads) {
  for (const Arithmetic arithmetic : {kF32, kBf16}) {
    const Result one = run(GetParam(), {"one", arithmetic, kPieces, 1});
    const Result three = run(GetParam(), {"three", arithmetic, kPieces, 3});
    EXPECT_EQ(one.loss, three.loss);
    EXPECT_EQ(one.logits, three.logits);
    EXPECT_EQ(one.gradients, three.gradients);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyBits, ::testing::ValuesIn(kModels), [](const auto& info) {
  return info.param.stem + (info.param.documents == Documents::packed ? "_packed" : "");
});

// Without rotary positions softmax does not see a key's bias, so its gradient is zero: what is left
// is rounding noise, which is bounded by the whole gradient's norm and not by its own largest
// entry.
TEST(Gpt2KeyBiases, HaveNoGradient) {
  const Model model{"gpt2_tiny"};
  const ModelConfig config = model.config();
  const double norm = model.expected("gradient_norm")[0];
  for (const Way& way : kWays) {
    const Result result = run(model, way);
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      const auto [unit, tensors] = block_unit(config, layer);
      const std::span<const float> gradients = result.gradients.at(unit.name);
      const auto key_bias = gradients.subspan(
          unit.tensors[tensors.qkv_bias.first].offset_elements + config.hidden, config.hidden);
      EXPECT_LE(largest(key_bias), tolerance(model, way) / 7 * norm) << unit.name;
    }
  }
}

}  // namespace
}  // namespace strata::models

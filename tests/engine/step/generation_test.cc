#include "engine/step/generation.h"

#include <gtest/gtest.h>

namespace strata::engine {
namespace {

// A model of ten tokens that counts: after token t comes t + 1 mod 10. Keeps what it was given.
class CountingModel {
 public:
  NextLogits next_logits() {
    return [this](std::span<const std::int32_t> tokens) {
      calls.emplace_back(tokens.begin(), tokens.end());
      logits_.assign(10, 0.0f);
      logits_[static_cast<std::size_t>((tokens.back() + 1) % 10)] = 1.0f;
      return std::span<const float>(logits_);
    };
  }
  std::vector<std::vector<std::int32_t>> calls;

 private:
  std::vector<float> logits_;
};

struct Outcome {
  std::vector<std::int32_t> tokens;
  GenerationEnd end;
};
Outcome run(CountingModel& model, const GenerationRequest& request,
            const std::vector<std::int32_t>& prompt) {
  Outcome outcome;
  outcome.end = generate(request, prompt, model.next_logits(),
                         [&](std::int32_t token) { outcome.tokens.push_back(token); });
  return outcome;
}

constexpr TokenChoiceSettings kGreedy{.temperature = 0};
using Tokens = std::vector<std::int32_t>;

TEST(Generate, GivesThePromptAtOnceAndThenToken) {
  CountingModel model;
  const Outcome outcome =
      run(model, {.choice = kGreedy, .max_tokens = 3, .positions = 10}, {4, 6, 7});
  EXPECT_EQ(outcome.tokens, (Tokens{8, 9, 0}));
  EXPECT_EQ(outcome.end, GenerationEnd::enough);
  EXPECT_EQ(model.calls, (std::vector<Tokens>{{4, 6, 7}, {8}, {9}}));
}

TEST(Generate, EndsBeforeAnEndToken) {
  CountingModel model;
  const Outcome outcome = run(
      model, {.choice = kGreedy, .max_tokens = 100, .positions = 100, .end_tokens = {2, 0}}, {7});
  EXPECT_EQ(outcome.tokens, (Tokens{8, 9}));
  EXPECT_EQ(outcome.end, GenerationEnd::end_token);
}

TEST(Generate, EndsWhereTheSequenceIsFull) {
  CountingModel model;
  const Outcome outcome =
      run(model, {.choice = kGreedy, .max_tokens = 100, .positions = 4}, {1, 2, 3});
  EXPECT_EQ(outcome.tokens, (Tokens{4, 5}));  // the last is chosen and no longer given
  EXPECT_EQ(outcome.end, GenerationEnd::sequence_full);
  CountingModel full;
  EXPECT_EQ(run(full, {.choice = kGreedy, .max_tokens = 1, .positions = 3}, {1, 2, 3}).end,
            GenerationEnd::enough);
}

TEST(Generate, IsAFunctionOfItsSeedAndSequence) {
  const auto drawn = [](std::uint64_t seed, std::uint64_t sequence) {
    CountingModel model;
    GenerationRequest request{.choice = {.temperature = 2, .top_k = 0, .top_p = 1},
                              .seed = seed,
                              .sequence = sequence,
                              .max_tokens = 40,
                              .positions = 100};
    return run(model, request, {0}).tokens;
  };
  EXPECT_EQ(drawn(1, 0), drawn(1, 0));
  EXPECT_NE(drawn(1, 0), drawn(2, 0));
  EXPECT_NE(drawn(1, 0), drawn(1, 1));
}

// A sequence that goes on later draws what it would have drawn.
TEST(Generate, GoesOnAtItsNextDraw) {
  GenerationRequest request{.choice = {.temperature = 2, .top_k = 0, .top_p = 1},
                            .seed = 3,
                            .max_tokens = 20,
                            .positions = 100};
  CountingModel model;
  const Tokens whole = run(model, request, {0}).tokens;
  request.max_tokens = 8;
  Tokens parts = run(model, request, {0}).tokens;
  request.first_draw = 8;
  request.max_tokens = 12;
  const Tokens rest = run(model, request, {parts.back()}).tokens;
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
}

}  // namespace
}  // namespace strata::engine

#include "engine/step/sampler.h"

#include <algorithm>

#include "kernels/base/bytes.h"

namespace strata::engine {
namespace {

constexpr TokenChoiceSettings kChoice{.temperature = 0.8, .top_k = 40, .top_p = 1};

}  // namespace

// Adds tokens until `count` are drawn, an end token is, or the sequence is full.
GenerationEnd Sampler::go_on(std::vector<std::int32_t>& tokens, std::int64_t drawn,
                             std::int64_t count, std::int64_t step) {
  const std::size_t known =
      std::min(tokens.size(), static_cast<std::size_t>(ceil_div(seq_len_, 2)));
  const std::vector<std::int32_t> last(tokens.end() - static_cast<std::ptrdiff_t>(known),
                                       tokens.end());
  const GenerationRequest request{.choice = kChoice,
                                  .seed = seed_,
                                  .sequence = static_cast<std::uint64_t>(step),
                                  .first_draw = drawn,
                                  .max_tokens = count - drawn,
                                  .positions = seq_len_,
                                  .end_tokens = end_tokens_};
  trainer_.restart_sample();
  return generate(
      request, last, [&](std::span<const std::int32_t> next) { return trainer_.next_logits(next); },
      [&](std::int32_t token) { tokens.push_back(token); });
}

std::vector<std::int32_t> Sampler::draw(std::span<const std::int32_t> prompt, std::int64_t count,
                                        std::int64_t step) {
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  GenerationEnd end = GenerationEnd::sequence_full;
  while (end == GenerationEnd::sequence_full) {
    end = go_on(tokens, std::ssize(tokens) - std::ssize(prompt), count, step);
  }
  tokens.erase(tokens.begin(), tokens.begin() + std::ssize(prompt));
  return tokens;
}

}  // namespace strata::engine

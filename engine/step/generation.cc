#include "engine/step/generation.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace strata::engine {

GenerationEnd generate(const GenerationRequest& request, std::span<const std::int32_t> prompt,
                       const NextLogits& next_logits,
                       const std::function<void(std::int32_t)>& take) {
  STRATA_CHECK(!prompt.empty() && std::ssize(prompt) <= request.positions,
               "a prompt of {} tokens for {} positions", prompt.size(), request.positions);
  TokenChoice choice(request.choice);
  std::int64_t given = 0;
  std::int32_t token = 0;
  for (std::int64_t i = 0; i < request.max_tokens; ++i) {
    if (given == request.positions) return GenerationEnd::sequence_full;
    const auto next = i == 0 ? prompt : std::span<const std::int32_t>(&token, 1);
    const std::span<const float> logits = next_logits(next);
    given += std::ssize(next);
    const auto draw = static_cast<std::uint64_t>(request.first_draw + i);
    token = choice.choose(logits, uniform_draw(request.seed, request.sequence, draw));
    if (std::ranges::count(request.end_tokens, token) > 0) return GenerationEnd::end_token;
    take(token);
  }
  return GenerationEnd::enough;
}

}  // namespace strata::engine

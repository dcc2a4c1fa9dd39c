// Generation: token after token from a model, until there are enough, an end token comes or the
// sequence is full.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/step/token_choice.h"

namespace strata::engine {

struct GenerationRequest {
  TokenChoiceSettings choice;
  std::uint64_t seed = 0;
  std::uint64_t sequence = 0;   // of the seed: draws differ from those of others
  std::int64_t first_draw = 0;  // where a sequence goes on that was begun before
  std::int64_t max_tokens = 0;  // to generate
  std::int64_t positions = 0;   // tokens that the model can take, the prompt's with them
  std::vector<std::int32_t> end_tokens = {};  // end the text; are not part of it
};

enum class GenerationEnd : std::uint8_t { enough, end_token, sequence_full };

// Logits of the token after all those given so far and these.
using NextLogits = std::function<std::span<const float>(std::span<const std::int32_t> tokens)>;

// `prompt`: at least one token, at most `positions`. `take` gets each token as it is chosen.
GenerationEnd generate(const GenerationRequest& request, std::span<const std::int32_t> prompt,
                       const NextLogits& next_logits,
                       const std::function<void(std::int32_t)>& take);

}  // namespace strata::engine

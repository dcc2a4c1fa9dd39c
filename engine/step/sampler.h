// Sampler: tokens drawn from the model as it is now, one by one, through the same tiers as
// training.
//
// Draws from the 40 most likely tokens at temperature 0.8, from a seed, so every rank draws the
// same.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/step/generation.h"
#include "engine/step/trainer.h"

namespace strata::engine {

class Sampler {
 public:
  // The trainer's run asked for samples. An end token ends one and is not part of it.
  Sampler(Trainer& trainer, std::int64_t seq_len, std::uint64_t seed,
          std::vector<std::int32_t> end_tokens)
      : trainer_(trainer), seq_len_(seq_len), seed_(seed), end_tokens_(std::move(end_tokens)) {}

  // At most `count` tokens after `prompt`, which has one at least. Where a sequence is full, the
  // sample goes on from its last half.
  // The draws depend on the seed and on `step`, not on earlier samples.
  std::vector<std::int32_t> draw(std::span<const std::int32_t> prompt, std::int64_t count,
                                 std::int64_t step);

 private:
  GenerationEnd go_on(std::vector<std::int32_t>& tokens, std::int64_t drawn, std::int64_t count,
                      std::int64_t step);

  Trainer& trainer_;
  std::int64_t seq_len_;
  std::uint64_t seed_;
  std::vector<std::int32_t> end_tokens_;
};

}  // namespace strata::engine

// Sampler: text (or token ids) drawn from the model as it is now, token by token, through the same
// tiers as training.
//
// Draws from the 40 most likely tokens at temperature 0.8, from a seed, so every rank draws the
// same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/step/trainer.h"

namespace strata::engine {

class Sampler {
 public:
  // The trainer's run asked for samples.
  Sampler(Trainer& trainer, std::int64_t vocabulary, std::int64_t seq_len, std::uint64_t seed)
      : trainer_(trainer), vocabulary_(vocabulary), seq_len_(seq_len), seed_(seed) {}

  // `count` tokens after `prompt` (text; byte-level models only, otherwise the sample starts from
  // token 0). Bytes that are not printable are shown as '.', ids as numbers. Where a sequence is
  // full, the sample goes on from its last half.
  // The draws depend on the seed and on `step`, not on earlier samples.
  std::string draw(const std::string& prompt, std::int64_t count, std::int64_t step);

 private:
  void go_on(std::vector<std::int32_t>& tokens, std::int64_t drawn, std::int64_t count,
             std::int64_t step);

  Trainer& trainer_;
  std::int64_t vocabulary_;
  std::int64_t seq_len_;
  std::uint64_t seed_;
};

}  // namespace strata::engine

// Sampler: text (or token ids) drawn from the model as it is now, token by token.
//
// Each token takes one forward over the units, through the same tiers as training. Draws from the
// 40 most likely tokens at temperature 0.8, from a seed, so every rank draws the same.
// Not for speed: there is no key-value cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/step/trainer.h"
#include "kernels/base/split_mix.h"

namespace strata::engine {

class Sampler {
 public:
  static constexpr double kTemperature = 0.8;
  static constexpr int kTopK = 40;

  Sampler(Trainer& trainer, std::int64_t vocabulary, std::int64_t seq_len, std::uint64_t seed);

  // `count` tokens after `prompt` (text; byte-level models only, otherwise the sample starts from
  // token 0). Bytes that are not printable are shown as '.', ids as numbers.
  // The draws depend on the seed and on `step`, not on earlier samples.
  std::string draw(const std::string& prompt, std::int64_t count, std::int64_t step);

 private:
  std::int32_t pick(std::span<const float> logits);
  double uniform();
  Trainer& trainer_;
  std::int64_t vocabulary_;
  std::int64_t seq_len_;
  std::uint64_t seed_;
  SplitMix64 random_;
  std::vector<std::pair<float, std::int32_t>> candidates_;
};

}  // namespace strata::engine

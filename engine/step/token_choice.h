// TokenChoice: the next token from its logits. All arithmetic is in f64 and every tie goes to the
// lower id, so the choice is a function of the logits, the settings and one number u in [0, 1):
//
//   1. tokens in order of their logits, largest first
//   2. temperature 0: the first one, whatever the rest says
//   3. the first top_k of them stay (0: all); each weighs exp((logit - largest) / temperature)
//   4. of these the shortest beginning that has at least top_p of their weight stays (Holtzman et
//      al. 2020, nucleus sampling), at least one token
//   5. the first token at which the weights so far exceed u times those that stayed
//
// That is the order of transformers' logits processors: temperature, top-k, top-p.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace strata::engine {

struct TokenChoiceSettings {
  double temperature = 0.8;  // >= 0
  std::int64_t top_k = 40;   // >= 0
  double top_p = 1;          // in (0, 1]
};

class TokenChoice {
 public:
  explicit TokenChoice(const TokenChoiceSettings& settings) : settings_(settings) {}

  // Throws Error when a logit is no number. Allocates at the first call only.
  std::int32_t choose(std::span<const float> logits, double u);

 private:
  struct Candidate {
    float logit;
    std::int32_t token;
    double weight;
  };
  void order(std::size_t first);

  TokenChoiceSettings settings_;
  std::vector<Candidate> candidates_;
};

// Number `draw` of sequence `sequence` of a seed, in [0, 1): any of them without those before it.
double uniform_draw(std::uint64_t seed, std::uint64_t sequence, std::uint64_t draw);

}  // namespace strata::engine

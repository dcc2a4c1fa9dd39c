#include "engine/step/token_choice.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"
#include "kernels/base/split_mix.h"

namespace strata::engine {

// Sorts the first `first` candidates to the front.
void TokenChoice::order(std::size_t first) {
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(first),
                    candidates_.end(), [](const Candidate& a, const Candidate& b) {
                      return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
                    });
}

std::int32_t TokenChoice::choose(std::span<const float> logits, double u) {
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      throw_error<Error>("the model's logits are not finite (token {}: {}): its weights are broken",
                         i, logits[i]);
    }
    candidates_.push_back({logits[i], static_cast<std::int32_t>(i), 0});
  }
  std::size_t kept = candidates_.size();
  if (settings_.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(settings_.top_k));
  if (settings_.temperature == 0) kept = 1;
  order(kept);
  if (kept == 1) return candidates_.front().token;

  double total = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    const double below = static_cast<double>(candidates_[i].logit) - candidates_.front().logit;
    total += candidates_[i].weight = std::exp(below / settings_.temperature);
  }
  double nucleus = 0;
  std::size_t size = 0;
  do {
    nucleus += candidates_[size++].weight;
  } while (size < kept && nucleus < settings_.top_p * total);
  double so_far = 0;
  for (std::size_t i = 0; i + 1 < size; ++i) {
    so_far += candidates_[i].weight;
    if (so_far > u * nucleus) return candidates_[i].token;
  }
  return candidates_[size - 1].token;
}

double uniform_draw(std::uint64_t seed, std::uint64_t sequence, std::uint64_t draw) {
  const std::uint64_t key = SplitMix64::finish(seed ^ SplitMix64::finish(sequence));
  const std::uint64_t bits = SplitMix64::finish(key + (draw + 1) * SplitMix64::kGamma);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace strata::engine

#include "engine/step/sampler.h"

#include <algorithm>
#include <cmath>

#include "models/model_config.h"

namespace strata::engine {

Sampler::Sampler(Trainer& trainer, std::int64_t vocabulary, std::int64_t seq_len,
                 std::uint64_t seed)
    : trainer_(trainer), vocabulary_(vocabulary), seq_len_(seq_len), seed_(seed) {}

double Sampler::uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

std::int32_t Sampler::pick(std::span<const float> logits) {
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    candidates_.emplace_back(logits[i], static_cast<std::int32_t>(i));
  }
  const auto kept = std::min<std::size_t>(kTopK, candidates_.size());
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(kept),
                    candidates_.end(), std::greater<>());
  const auto weight = [&](std::size_t i) {
    return std::exp((static_cast<double>(candidates_[i].first) - candidates_[0].first) /
                    kTemperature);
  };
  double total = 0;
  for (std::size_t i = 0; i < kept; ++i) total += weight(i);
  double left = uniform() * total;
  for (std::size_t i = 0; i < kept; ++i) {
    left -= weight(i);
    if (left < 0) return candidates_[i].second;
  }
  return candidates_[kept - 1].second;
}

std::string Sampler::draw(const std::string& prompt, std::int64_t count, std::int64_t step) {
  random_.state = SplitMix64::finish(seed_ ^ SplitMix64::finish(static_cast<std::uint64_t>(step)));
  const bool bytes = vocabulary_ == models::kByteVocabulary;
  std::vector<std::int32_t> tokens;
  if (bytes) {
    for (const char c : prompt) tokens.push_back(static_cast<unsigned char>(c));
  }
  if (tokens.empty()) tokens.push_back(0);
  std::string text = bytes ? prompt : "";
  for (std::int64_t i = 0; i < count; ++i) {
    const auto window = std::min<std::size_t>(tokens.size(), static_cast<std::size_t>(seq_len_));
    const std::int32_t token = pick(trainer_.next_logits(std::span(tokens).last(window)));
    tokens.push_back(token);
    if (!bytes) {
      text += std::to_string(token) + ' ';
    } else if (token == '\n' || (token >= ' ' && token <= '~')) {
      text += static_cast<char>(token);
    } else {
      text += '.';
    }
  }
  return text;
}

}  // namespace strata::engine

#include "engine/step/sampler.h"

#include <algorithm>

#include "engine/step/generation.h"
#include "kernels/base/bytes.h"
#include "models/model_config.h"

namespace strata::engine {
namespace {

constexpr TokenChoiceSettings kChoice{.temperature = 0.8, .top_k = 40, .top_p = 1};

}  // namespace

// Adds tokens until `count` are drawn or the sequence is full.
void Sampler::go_on(std::vector<std::int32_t>& tokens, std::int64_t drawn, std::int64_t count,
                    std::int64_t step) {
  const std::size_t known =
      std::min(tokens.size(), static_cast<std::size_t>(ceil_div(seq_len_, 2)));
  const std::vector<std::int32_t> last(tokens.end() - static_cast<std::ptrdiff_t>(known),
                                       tokens.end());
  const GenerationRequest request{.choice = kChoice,
                                  .seed = seed_,
                                  .sequence = static_cast<std::uint64_t>(step),
                                  .first_draw = drawn,
                                  .max_tokens = count - drawn,
                                  .positions = seq_len_};
  trainer_.restart_sample();
  generate(
      request, last, [&](std::span<const std::int32_t> next) { return trainer_.next_logits(next); },
      [&](std::int32_t token) { tokens.push_back(token); });
}

std::string Sampler::draw(const std::string& prompt, std::int64_t count, std::int64_t step) {
  const bool bytes = vocabulary_ == models::kByteVocabulary;
  std::vector<std::int32_t> tokens;
  if (bytes) {
    for (const char c : prompt) tokens.push_back(static_cast<unsigned char>(c));
  }
  if (tokens.empty()) tokens.push_back(0);
  const std::size_t begin = tokens.size();
  const auto drawn = [&] { return static_cast<std::int64_t>(tokens.size() - begin); };
  while (drawn() < count) go_on(tokens, drawn(), count, step);

  std::string text = bytes ? prompt : "";
  for (const std::int32_t token : std::span(tokens).subspan(begin)) {
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

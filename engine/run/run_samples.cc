#include "engine/run/run_samples.h"

#include <utility>

#include "engine/run/text_format.h"
#include "engine/step/sampler.h"

namespace strata::engine {

RunSamples::RunSamples(const RunSetup& setup)
    : seq_len_(setup.batch.seq_len),
      count_(setup.options.sample_tokens),
      seed_(setup.options.seed) {
  TextFormat format = read_text_format(setup);
  if (setup.model.vocabulary == models::kByteVocabulary) {
    shown_prompt_ = setup.options.sample_prompt;
    for (const char c : shown_prompt_) prompt_.push_back(static_cast<unsigned char>(c));
  } else {
    prompt_.push_back(format.begin_token.value_or(0));
  }
  end_tokens_ = std::move(format.end_tokens);
  if (setup.topology.rank == 0) text_.emplace(setup.model, format.tokenizer);
}

std::string RunSamples::draw(Trainer& trainer, std::int64_t step) {
  const std::vector<std::int32_t> tokens =
      Sampler(trainer, seq_len_, seed_, end_tokens_).draw(prompt_, count_, step);
  if (!text_) return "";
  text_->begin(prompt_);
  std::string text = shown_prompt_;
  for (const std::int32_t token : tokens) text += text_->add(token);
  return text + text_->finish();
}

}  // namespace strata::engine

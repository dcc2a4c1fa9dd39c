// RunSamples: what --sample-tokens asks for: text that the model of a training run writes, from
// --sample-prompt where its tokens are bytes, otherwise from the token that begins a text (or 0).
//
// Every rank has one; rank 0's alone has the text. Thread contract: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/run_setup.h"
#include "engine/run/generated_text.h"
#include "engine/step/trainer.h"

namespace strata::engine {

class RunSamples {
 public:
  // Throws FormatError and ConfigError, naming the file, for a folder whose text this program
  // cannot write.
  explicit RunSamples(const RunSetup& setup);

  // The sample of a step, with --sample-prompt before it; "" on other ranks than 0. Collective.
  std::string draw(Trainer& trainer, std::int64_t step);

 private:
  std::int64_t seq_len_;
  std::int64_t count_;
  std::uint64_t seed_;
  std::vector<std::int32_t> prompt_;
  std::vector<std::int32_t> end_tokens_;
  std::string shown_prompt_;
  std::optional<GeneratedText> text_;
};

}  // namespace strata::engine

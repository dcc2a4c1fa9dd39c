// TrainingData: the token sources of a run: what is trained on and what is validated on.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/data/token_source.h"
#include "engine/options/options.h"

namespace strata::engine {

struct TrainingData {
  std::unique_ptr<TokenSource> file;        // --data, whole
  std::unique_ptr<TokenSource> validation;  // null: none
  std::unique_ptr<TokenSource> train;       // what is trained on
  std::int64_t train_samples = 0;
  std::int64_t validation_samples = 0;
};

// Opens --data and --val-data, or takes --val-fraction from the end of --data. Throws ConfigError
// or FormatError, also when a part is shorter than one sequence or has an id outside the vocabulary
// (of a very large file a part is looked at).
TrainingData open_training_data(const Options& options, std::int64_t vocabulary,
                                std::int64_t seq_len);

}  // namespace strata::engine

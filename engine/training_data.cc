#include "engine/training_data.h"

#include <cmath>

#include "kernels/base/error.h"

namespace strata::engine {

namespace {

// Whole sequences in a source, each with the token after it.
std::int64_t samples_in(const TokenSource& source, std::int64_t seq_len, const char* what) {
  const std::int64_t samples = (source.tokens() - 1) / seq_len;
  if (samples < 1) {
    throw_error<ConfigError>(
        "{} has {} tokens, but one sequence takes {} (--seq-len {} and the token after it); use "
        "more data or a shorter --seq-len",
        what, source.tokens(), seq_len + 1, seq_len);
  }
  return samples;
}

}  // namespace

TrainingData open_training_data(const Options& options, std::int64_t vocabulary,
                                std::int64_t seq_len) {
  TrainingData data;
  data.file = open_tokens(options.data, vocabulary);
  std::int64_t train_tokens = data.file->tokens();
  if (!options.val_data.empty()) {
    data.validation = open_tokens(options.val_data, vocabulary);
  } else if (options.val_fraction > 0) {
    const auto held_out = static_cast<std::int64_t>(
        std::floor(static_cast<double>(train_tokens) * options.val_fraction));
    train_tokens -= held_out;
    data.validation = slice_tokens(*data.file, train_tokens, held_out);
  }
  data.train = slice_tokens(*data.file, 0, train_tokens);
  data.train_samples = samples_in(*data.train, seq_len, "the training data");
  if (data.validation != nullptr) {
    data.validation_samples = samples_in(*data.validation, seq_len, "the validation data");
  }
  return data;
}

}  // namespace strata::engine

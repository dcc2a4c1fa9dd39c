#include "engine/data/training_data.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/base/bytes.h"
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

// Reads the whole file, or of a large one windows that lie evenly over it: another tokenizer shows
// in any part, and ids that are met only in training are refused there (TokenSource::read).
void check_token_ids(const TokenSource& source) {
  constexpr std::int64_t kWindowTokens = 1 << 20;
  constexpr std::int64_t kWindowsMax = 256;
  const std::int64_t windows = ceil_div(source.tokens(), kWindowTokens);
  const std::int64_t looked_at = std::min(windows, kWindowsMax);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(source.tokens(), kWindowTokens)));
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const std::int64_t first = windows * i / looked_at * kWindowTokens;
    const std::int64_t count = std::min(kWindowTokens, source.tokens() - first);
    source.read(first, std::span(ids).first(static_cast<std::size_t>(count)));
  }
}

// The tokens of the file that `option` names, which errors name too.
std::unique_ptr<TokenSource> open_checked(const char* option, const std::string& path,
                                          std::int64_t vocabulary) {
  try {
    std::unique_ptr<TokenSource> source = open_tokens(path, vocabulary);
    check_token_ids(*source);
    return source;
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("{}: {}", option, e.what());
  } catch (const FormatError& e) {
    throw_error<FormatError>("{}: {}", option, e.what());
  }
}

}  // namespace

TrainingData open_training_data(const Options& options, std::int64_t vocabulary,
                                std::int64_t seq_len) {
  TrainingData data;
  data.file = open_checked("--data", options.data, vocabulary);
  std::int64_t train_tokens = data.file->tokens();
  if (!options.val_data.empty()) {
    data.validation = open_checked("--val-data", options.val_data, vocabulary);
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

#include "engine/data/training_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <vector>

#include "engine/data/document_samples.h"
#include "engine/data/stream_samples.h"
#include "engine/data/token_metadata.h"
#include "engine/data/untokenized.h"
#include "engine/options/count_text.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "models/presets.h"

namespace strata::engine {

namespace {

constexpr const char* kData = "--data";
constexpr const char* kValData = "--val-data";

// What `work` throws of the data that `option` names, naming the option too.
template <typename Work>
auto named_in_errors(const char* option, Work&& work) {
  try {
    return work();
  } catch (const ConfigError& e) {
    throw_error<ConfigError>("{}: {}", option, e.what());
  } catch (const FormatError& e) {
    throw_error<FormatError>("{}: {}", option, e.what());
  }
}

// Reads the whole file, or of a large one windows that lie evenly over it: another tokenizer shows
// in any part, and what is met only in training is refused there (Samples::read).
void check_tokens(const TokenData& data) {
  constexpr std::int64_t kWindowTokens = 1 << 20;
  constexpr std::int64_t kWindowsMax = 256;
  const std::int64_t tokens = data.tokens->tokens();
  const std::int64_t windows = ceil_div(tokens, kWindowTokens);
  const std::int64_t looked_at = std::min(windows, kWindowsMax);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(tokens, kWindowTokens)));
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const std::int64_t first = windows * i / looked_at * kWindowTokens;
    const auto window =
        std::span(ids).first(static_cast<std::size_t>(std::min(kWindowTokens, tokens - first)));
    data.tokens->read(first, window);
    if (data.mask != nullptr) data.mask->ignore_untrained(first, window);
  }
}

// The command that makes tokens of a file for the model, as far as that has a tokenizer.
std::string tokenize_command(const std::string& path, const std::string& model) {
  return fmt::format("scripts/tokenize.py {} --tokenizer {} --out tokens/{}", path,
                     models::is_model_name(model) ? "FOLDER" : model,
                     std::filesystem::path(path).stem().string());
}

TokenData open_checked(const std::string& names, const std::string& model,
                       std::int64_t vocabulary) {
  try {
    TokenData data = open_token_data(names, vocabulary);
    check_tokens(data);
    return data;
  } catch (const UntokenizedFile& error) {
    throw_error<ConfigError>("{}: make a token file of it first, with {} (docs/data.md)",
                             error.what(), tokenize_command(error.path(), model));
  }
}

// Whether a sample is made of documents, not of a window of tokens.
bool uses_documents(const TokenData& data, const Options& options) {
  return options.pack || data.documents_from == DocumentsFrom::docs_files;
}

void require_documents(const TokenData& data, const Options& options) {
  if (options.pack && data.documents == nullptr) {
    throw ConfigError(
        "--pack needs to know where documents begin, and nothing says it: a Megatron .idx does, or "
        "a NAME.docs beside NAME.bin, which scripts/tokenize.py writes");
  }
  if (options.overlong != Options().overlong && !uses_documents(data, options)) {
    throw_error<ConfigError>(
        "--overlong {} is for documents, and these data are one stream of tokens: give --pack with "
        "a Megatron .idx, or a NAME.docs beside NAME.bin, which scripts/tokenize.py writes",
        options.overlong);
  }
}

Overlong parse_overlong(const std::string& text) {
  if (text == "drop") return Overlong::drop;
  return text == "truncate" ? Overlong::truncate : Overlong::error;
}

// A part of the data, in documents or tokens: [first, last).
struct Part {
  const char* name;
  std::int64_t first;
  std::int64_t last;
};

std::unique_ptr<Samples> make_samples(const TokenData& data, const Part& part,
                                      const Options& options, std::int64_t seq_len) {
  if (uses_documents(data, options)) {
    const Packing packing = options.pack ? Packing::next_fit : Packing::none;
    return std::make_unique<DocumentSamples>(
        data, DocumentRange{part.first, part.last},
        DocumentRules{seq_len, packing, parse_overlong(options.overlong)});
  }
  const std::int64_t tokens = part.last - part.first;
  if (tokens <= seq_len) {
    throw_error<ConfigError>(
        "{} has {} tokens, but one sequence takes {} (--seq-len {} and the token after it); use "
        "more data or a shorter --seq-len",
        part.name, tokens, seq_len + 1, seq_len);
  }
  return std::make_unique<StreamSamples>(data, part.first, tokens, seq_len);
}

// Documents or tokens.
std::int64_t divisible_of(const TokenData& data, const Options& options) {
  return uses_documents(data, options) ? data.documents->documents() : data.tokens->tokens();
}

}  // namespace

TrainingData open_training_data(const Options& options, std::int64_t vocabulary,
                                std::int64_t seq_len) {
  constexpr const char* kTrainPart = "the training data";
  constexpr const char* kValidationPart = "the validation data";
  TrainingData data;
  data.file =
      named_in_errors(kData, [&] { return open_checked(options.data, options.model, vocabulary); });
  require_documents(data.file, options);
  const std::int64_t all = divisible_of(data.file, options);
  const auto held_out =
      static_cast<std::int64_t>(std::floor(static_cast<double>(all) * options.val_fraction));
  if (!options.val_data.empty()) {
    data.validation = named_in_errors(kValData, [&] {
      data.validation_file = open_checked(options.val_data, options.model, vocabulary);
      require_documents(data.validation_file, options);
      return make_samples(data.validation_file,
                          {kValidationPart, 0, divisible_of(data.validation_file, options)},
                          options, seq_len);
    });
  }
  named_in_errors(kData, [&] {
    if (options.val_fraction > 0) {
      data.validation =
          make_samples(data.file, {kValidationPart, all - held_out, all}, options, seq_len);
    }
    data.train = make_samples(data.file, {kTrainPart, 0, all - held_out}, options, seq_len);
  });
  return data;
}

std::string TrainingData::description() const {
  std::string text = fmt::format("{}{}; to train on: {}", file.tokens->description(),
                                 file.mask == nullptr ? "" : " with a mask", train->description());
  if (validation != nullptr) text += fmt::format("; for validation: {}", validation->description());
  return text;
}

std::string check_tokenizer(const TrainingData& data, const std::string& tokenizer_json) {
  const std::string warning =
      named_in_errors(kData, [&] { return check_tokenizer(data.file, tokenizer_json); });
  const std::string of_validation = named_in_errors(
      kValData, [&] { return check_tokenizer(data.validation_file, tokenizer_json); });
  return warning.empty() ? of_validation : warning;
}

}  // namespace strata::engine

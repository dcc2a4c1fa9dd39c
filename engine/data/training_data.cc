#include "engine/data/training_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "engine/data/document_samples.h"
#include "engine/data/stream_samples.h"
#include "engine/data/token_metadata.h"
#include "engine/data/untokenized.h"
#include "engine/options/count_text.h"
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

// Data without a target would pass through every step without an update.
void require_trained(const TokenData& data, const DataDigest& digest) {
  if (digest.trained_tokens == 0) {
    throw_error<ConfigError>(
        "none of {} is trained: the .mask beside them is 0 everywhere; make the files again, or "
        "remove the mask to train on every token (docs/data.md)",
        count_text(digest.read_tokens, "token"));
  }
  const bool has_all = digest.read_tokens == digest.tokens;
  if (has_all && data.trained_tokens.value_or(digest.trained_tokens) != digest.trained_tokens) {
    throw_error<FormatError>(
        "the .json beside the tokens is of {} trained ones, but the .mask has {}: they do not "
        "belong together; make all files again",
        *data.trained_tokens, digest.trained_tokens);
  }
}

// The command that makes tokens of a file for the model, as far as that has a tokenizer.
std::string tokenize_command(const std::string& path, const std::string& model) {
  return fmt::format("scripts/tokenize.py {} --tokenizer {} --out tokens/{}", path,
                     models::is_model_name(model) ? "FOLDER" : model,
                     std::filesystem::path(path).stem().string());
}

struct CheckedData {
  TokenData data;
  DataDigest digest;
};

CheckedData open_checked(const std::string& names, const std::string& model,
                         std::int64_t vocabulary) {
  try {
    CheckedData checked{open_token_data(names, vocabulary), {}};
    checked.digest = digest_of(checked.data);
    require_trained(checked.data, checked.digest);
    return checked;
  } catch (const UntokenizedFile& error) {
    throw_error<ConfigError>("{}; make a token file of it first, with {} (docs/data.md)",
                             error.what(), tokenize_command(error.path(), model));
  }
}

// Whether a sample is made of documents, not of a window of tokens.
bool uses_documents(const TokenData& data, const Options& options) {
  return data.documents_from == DocumentsFrom::docs_files ||
         (options.pack && data.documents != nullptr);
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
        DocumentRules{seq_len, packing, parse_overlong(options.overlong), options.micro_batch});
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

// Documents or tokens for validation, of so many.
std::int64_t held_out_of(std::int64_t all, const Options& options) {
  const auto held_out =
      static_cast<std::int64_t>(std::floor(static_cast<double>(all) * options.val_fraction));
  if (options.val_fraction > 0 && held_out == 0) {
    throw_error<ConfigError>("--val-fraction {} of the {} in --data leaves none for validation",
                             options.val_fraction, all);
  }
  return held_out;
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
  CheckedData checked =
      named_in_errors(kData, [&] { return open_checked(options.data, options.model, vocabulary); });
  data.file = std::move(checked.data);
  data.digest = checked.digest;
  require_documents(data.file, options);
  const std::int64_t all = divisible_of(data.file, options);
  const std::int64_t held_out = held_out_of(all, options);
  if (!options.val_data.empty()) {
    data.validation = named_in_errors(kValData, [&] {
      data.validation_file = open_checked(options.val_data, options.model, vocabulary).data;
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

std::string check_tokenizer(const TrainingData& data, const std::string& expected) {
  const std::string warning =
      named_in_errors(kData, [&] { return check_tokenizer(data.file, expected); });
  const std::string of_validation =
      named_in_errors(kValData, [&] { return check_tokenizer(data.validation_file, expected); });
  return warning.empty() ? of_validation : warning;
}

}  // namespace strata::engine

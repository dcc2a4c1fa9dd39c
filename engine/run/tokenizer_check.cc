#include "engine/run/tokenizer_check.h"

#include <filesystem>

#include "engine/plan/model_source.h"
#include "kernels/base/error.h"
#include "models/tokenizer_file.h"

namespace strata::engine {
namespace {

// "": the model has none.
std::string vocabulary_hash(const std::string& folder) {
  const std::string text = read_model_files(folder)[models::kTokenizerFileName];
  if (text.empty()) return "";
  try {
    return models::TokenizerFile::parse(text).vocabulary_hash();
  } catch (const FormatError& e) {
    throw_error<FormatError>("'{}': {}",
                             (std::filesystem::path(folder) / models::kTokenizerFileName).string(),
                             e.what());
  }
}

}  // namespace

std::string check_tokenizer(const RunSetup& setup, const TrainingData& data) {
  const bool has_tokens = !data.file.tokenizers.empty() || !data.validation_file.tokenizers.empty();
  return has_tokens ? check_tokenizer(data, vocabulary_hash(setup.source.files_folder)) : "";
}

}  // namespace strata::engine

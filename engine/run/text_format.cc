#include "engine/run/text_format.h"

#include "engine/plan/model_source.h"
#include "kernels/base/error.h"
#include "models/boundary_tokens.h"
#include "models/tokenizer_file.h"

namespace strata::engine {

namespace {

constexpr const char* kGenerationConfigFile = "generation_config.json";

}  // namespace

TextFormat read_text_format(const RunSetup& setup) {
  const std::string& folder = setup.source.files_folder;
  const std::int64_t vocabulary = setup.model.vocabulary;
  ModelFiles files = read_model_files(folder);
  const std::string& generation_config = files[kGenerationConfigFile];
  const std::string& config = files[kModelConfigFile];
  try {
    return {files[models::kTokenizerFileName],
            models::begin_token(generation_config, config, vocabulary),
            models::end_tokens(generation_config, config, vocabulary)};
  } catch (const FormatError& e) {
    throw_error<FormatError>("{}: {}", folder, e.what());
  }
}

}  // namespace strata::engine

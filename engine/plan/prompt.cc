#include "engine/plan/prompt.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>

#include "kernels/base/error.h"
#include "models/tokenizer_file.h"

namespace strata::engine {
namespace {

std::int32_t parse_token(const char* option, std::string_view text,
                         const models::ModelConfig& model) {
  std::int32_t token = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed_to, error] = std::from_chars(text.data(), end, token);
  if (error != std::errc() || parsed_to != end || token < 0 || token >= model.vocabulary) {
    throw_error<ConfigError>("--{}: '{}' is no token of this model, whose ids are 0 to {}", option,
                             text, model.vocabulary - 1);
  }
  return token;
}

bool reads_bytes(const ModelSource& source) {
  const auto tokenizer = std::filesystem::path(source.files_folder) / models::kTokenizerFileName;
  return source.config.vocabulary == models::kByteVocabulary &&
         (source.files_folder.empty() || !std::filesystem::exists(tokenizer));
}

std::vector<std::int32_t> text_tokens(std::string_view text, const ModelSource& source) {
  if (!reads_bytes(source)) {
    throw ConfigError(
        "--prompt is text, which only a byte-level model (vocabulary 256, without tokenizer.json) "
        "reads; talk to this one with scripts/chat.py FOLDER, or give the tokens of its tokenizer "
        "with --prompt-ids");
  }
  std::vector<std::int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

}  // namespace

bool has_prompt(const Options& options) {
  return !options.prompt.empty() || !options.prompt_ids.empty();
}

std::vector<std::int32_t> prompt_tokens(const Options& options, const ModelSource& source) {
  const models::ModelConfig& model = source.config;
  if (options.prompt.empty() == options.prompt_ids.empty()) {
    throw ConfigError("give what to go on from: --prompt TEXT or --prompt-ids 1,2,3, one of them");
  }
  std::vector<std::int32_t> tokens;
  if (options.prompt_ids.empty()) {
    tokens = text_tokens(options.prompt, source);
  } else {
    const std::string_view ids = options.prompt_ids;
    for (std::size_t begin = 0; begin <= ids.size();) {
      const std::size_t end = std::min(ids.find(',', begin), ids.size());
      tokens.push_back(parse_token("prompt-ids", ids.substr(begin, end - begin), model));
      begin = end + 1;
    }
  }
  if (std::ssize(tokens) > model.context) {
    throw_error<ConfigError>("the prompt has {} tokens, more than the model's context of {}",
                             tokens.size(), model.context);
  }
  return tokens;
}

std::vector<std::int32_t> stop_tokens(const Options& options, const models::ModelConfig& model) {
  std::vector<std::int32_t> tokens;
  for (const std::string& id : options.stop_ids) {
    tokens.push_back(parse_token("stop-ids", id, model));
  }
  return tokens;
}

}  // namespace strata::engine

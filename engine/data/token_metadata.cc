#include "engine/data/token_metadata.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "models/tokenizer_file.h"

namespace strata::engine {
namespace {

constexpr const char* kFormat = "strata tokens";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kBytesMax = 1 << 20;  // a longer file is something else

// "": there is none, or it is too long.
std::string text_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";
  const InputFile file(path);
  if (file.bytes() > kBytesMax) return "";
  std::string text(static_cast<std::size_t>(file.bytes()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void require_count(const nlohmann::json& metadata, const char* what, std::int64_t expected,
                   const std::string& path) {
  const std::int64_t stated = metadata.at(what).get<std::int64_t>();
  if (stated == expected) return;
  throw_error<FormatError>(
      "'{}' is of {} {}, but there are {}: it does not belong to the files beside it; make all of "
      "them again",
      path, stated, what, expected);
}

}  // namespace

std::string read_tokenizer_hash(const std::string& path, std::int64_t tokens,
                                std::optional<std::int64_t> documents) {
  const std::string text = text_of(path);
  // Whatever else may be called like this, such as the text that the tokens were made of.
  if (text.find(kFormat) == std::string::npos) return "";
  try {
    const nlohmann::json metadata = nlohmann::json::parse(text);
    if (metadata.at("format") != kFormat) return "";
    if (metadata.at("version") != kVersion) {
      throw_error<FormatError>("'{}' is of version {}; Strata reads version {}", path,
                               metadata.at("version").dump(), kVersion);
    }
    require_count(metadata, "tokens", tokens, path);
    if (documents) require_count(metadata, "documents", *documents, path);
    return metadata.value("tokenizer", "");
  } catch (const nlohmann::json::exception& e) {
    throw_error<FormatError>("'{}' is damaged: {}", path, e.what());
  }
}

std::string check_tokenizer(const TokenData& data, const std::string& tokenizer_json) {
  if (data.tokenizers.empty()) return "";
  if (tokenizer_json.empty()) {
    return "the model has no tokenizer.json: that it is the one of the data is not checked";
  }
  const std::string expected = models::TokenizerFile::parse(tokenizer_json).vocabulary_hash();
  std::string unknown;
  for (const TokenData::Tokenizer& tokenizer : data.tokenizers) {
    if (tokenizer.hash.empty()) {
      if (unknown.empty()) unknown = tokenizer.file;
    } else if (tokenizer.hash != expected) {
      throw_error<ConfigError>(
          "'{}' was made with a tokenizer of vocabulary {}, but that of the model is {}; tokenize "
          "again with the model's tokenizer.json (scripts/tokenize.py)",
          tokenizer.file, tokenizer.hash, expected);
    }
  }
  if (unknown.empty()) return "";
  return fmt::format(
      "nothing beside '{}' says which tokenizer made it: that it is the model's is not checked",
      unknown);
}

}  // namespace strata::engine

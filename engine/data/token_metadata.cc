#include "engine/data/token_metadata.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "models/json_value.h"

namespace strata::engine {
namespace {

constexpr const char* kFormat = "strata tokens";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kBytesMax = 1 << 20;
constexpr std::size_t kBeginningBytes = 256;  // where a file of ours has its format

// "": there is none, or it is something else, such as the text that the tokens were made of.
std::string text_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";
  const InputFile file(path);
  std::string text(static_cast<std::size_t>(std::min(file.bytes(), kBytesMax)), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  const std::size_t format_at = text.find(kFormat);
  if (format_at == std::string::npos) return "";
  if (file.bytes() <= kBytesMax) return text;
  if (format_at > kBeginningBytes) return "";
  throw_error<FormatError>("'{}' has {} bytes, but a file of \"{}\" has {} at most", path,
                           file.bytes(), kFormat, kBytesMax);
}

nlohmann::json parse(const std::string& text, const std::string& path) {
  try {
    return nlohmann::json::parse(text, models::limit_depth);
  } catch (const FormatError& e) {
    throw_error<FormatError>("'{}': {}", path, e.what());
  }
}

constexpr const char* kMakeAgain =
    "it does not belong to the files beside it; make all of them again";

void require_count(const char* what, std::int64_t stated, std::int64_t expected,
                   const std::string& path) {
  if (stated == expected) return;
  throw_error<FormatError>("'{}' is of {} {}, but there are {}: {}", path, stated, what, expected,
                           kMakeAgain);
}

// Without them, what is trained would be something else.
void require_companions(const TokenMetadata& metadata, std::int64_t stated_documents,
                        const CompanionCounts& counts, const std::string& path) {
  if (counts.documents || stated_documents > 0) {
    if (!counts.documents) {
      throw_error<FormatError>("'{}' is of {} documents, but the .docs beside it is missing: {}",
                               path, stated_documents, kMakeAgain);
    }
    require_count("documents", stated_documents, *counts.documents, path);
  }
  if (metadata.trained_tokens < counts.tokens && !counts.has_mask) {
    throw_error<FormatError>(
        "'{}' is of {} tokens of which {} are trained, but the .mask beside it is missing: {}",
        path, counts.tokens, metadata.trained_tokens, kMakeAgain);
  }
}

}  // namespace

std::optional<TokenMetadata> read_token_metadata(const std::string& path,
                                                 const CompanionCounts& counts) {
  const std::string text = text_of(path);
  if (text.empty()) return std::nullopt;
  try {
    const nlohmann::json metadata = parse(text, path);
    if (metadata.at("format") != kFormat) return std::nullopt;
    if (metadata.at("version") != kVersion) {
      throw_error<FormatError>("'{}' is of version {}; Strata reads version {}", path,
                               metadata.at("version").dump(), kVersion);
    }
    const auto count = [&](const char* what) { return metadata.at(what).get<std::int64_t>(); };
    require_count("tokens", count("tokens"), counts.tokens, path);
    const TokenMetadata result{metadata.value("tokenizer", ""), count("trained_tokens")};
    require_companions(result, count("documents"), counts, path);
    return result;
  } catch (const nlohmann::json::exception& e) {
    throw_error<FormatError>("'{}' is damaged: {}", path, e.what());
  }
}

std::string check_tokenizer(const TokenData& data, const std::string& expected) {
  if (data.tokenizers.empty()) return "";
  if (expected.empty()) {
    return "the model has no tokenizer.json: that it is the one of the data is not checked";
  }
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

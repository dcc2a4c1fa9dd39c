#include "models/tokenizer_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "models/json_value.h"
#include "models/model_config.h"

namespace strata::models {

using nlohmann::json;

namespace {

using Token = TokenizerFile::Token;
using Tokens = std::map<std::int32_t, Token>;

// Without the merges, which are most of the file and only for encoding.
json parse_root(std::string_view text) {
  const auto is_wanted = [](int depth, json::parse_event_t event, json& parsed) {
    return limit_depth(depth, event, parsed) &&
           !(event == json::parse_event_t::key && depth == 2 && parsed == "merges");
  };
  return json::parse(text, is_wanted, /*allow_exceptions=*/false);
}

std::int32_t id_of(const json& id, const std::string& token) {
  if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kVocabularyMax) {
    throw_error<FormatError>("token '{}' has no id from 0 to {}", token, kVocabularyMax - 1);
  }
  return id.get<std::int32_t>();
}

Tokens read_vocabulary(const json& vocabulary) {
  Tokens tokens;
  const auto add = [&](const std::string& text, const json& id) {
    const auto [found, is_new] = tokens.try_emplace(id_of(id, text), Token{text});
    if (is_new) return;
    throw_error<FormatError>("tokens '{}' and '{}' have the id {}", found->second.text, text,
                             found->first);
  };
  if (vocabulary.is_object()) {
    for (const auto& [text, id] : vocabulary.items()) add(text, id);
  } else if (vocabulary.is_array()) {  // [token, score] at the place of its id
    for (const json& entry : vocabulary) {
      if (!entry.is_array() || entry.empty() || !entry[0].is_string()) {
        throw FormatError("an entry of model.vocab is no [token, score]");
      }
      add(entry[0].get<std::string>(), tokens.size());
    }
  } else {
    throw FormatError("it has no model.vocab");
  }
  return tokens;
}

Tokens read_added_tokens(const json& added) {
  Tokens tokens;
  if (added.is_null()) return tokens;
  if (!added.is_array()) throw FormatError("added_tokens is no list");
  for (const json& entry : added) {
    const json& text = value_of(entry, "content");
    const json& special = value_of(entry, "special");
    if (!text.is_string() || !(special.is_boolean() || special.is_null())) {
      throw FormatError("an entry of added_tokens has no content, or special is no boolean");
    }
    const Token token{text.get<std::string>(), special == true};
    const std::int32_t id = id_of(value_of(entry, "id"), token.text);
    if (!tokens.try_emplace(id, token).second) {
      throw_error<FormatError>("added_tokens has two tokens with the id {}", id);
    }
  }
  return tokens;
}

}  // namespace

TokenizerFile TokenizerFile::parse(std::string_view text) {
  if (std::ssize(text) > kTokenizerFileBytesMax) {
    throw_error<FormatError>("it is longer than {} bytes", kTokenizerFileBytesMax);
  }
  const json root = parse_root(text);
  if (!root.is_object()) throw FormatError("it is no JSON object");
  TokenizerFile file;
  file.tokens_ = read_added_tokens(value_of(root, "added_tokens"));
  file.tokens_.merge(read_vocabulary(value_of(value_of(root, "model"), "vocab")));
  file.decoder_ = value_of(root, "decoder").dump();
  return file;
}

std::string TokenizerFile::vocabulary_hash() const {
  std::string text;
  for (const auto& [id, token] : tokens_) {
    fmt::format_to(std::back_inserter(text), "{} {}\n", id, token.text);
  }
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("xxh3-128:{:016x}{:016x}", hash.high64, hash.low64);
}

const TokenizerFile::Token* TokenizerFile::find(std::int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

}  // namespace strata::models

#include "models/token_decoder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "kernels/base/error.h"
#include "models/json_value.h"

namespace strata::models {

using nlohmann::json;

namespace {

constexpr std::int64_t kStrippedMax = 1024;

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

[[noreturn]] void refuse(const std::string& what) {
  throw_error<ConfigError>(
      "its decoder {} is not supported; supported: ByteLevel; Metaspace, perhaps after "
      "ByteFallback; and of Replace, ByteFallback, Fuse and Strip some, in this order",
      what);
}

void read_replace(const json& step, DecoderSteps& steps) {
  const json& replaced = value_of(value_of(step, "pattern"), "String");
  const json& replacement = value_of(step, "content");
  if (!replaced.is_string() || replaced == "" || !replacement.is_string()) {
    refuse("Replace of " + value_of(step, "pattern").dump());
  }
  steps.replaced = replaced.get<std::string>();
  steps.replacement = replacement.get<std::string>();
}

void read_strip(const json& step, DecoderSteps& steps) {
  const json& start = value_of(step, "start");
  const bool is_supported = value_of(step, "content") == " " && value_of(step, "stop") == 0 &&
                            start.is_number_unsigned() && start <= kStrippedMax;
  if (!is_supported) refuse("Strip of other than spaces at the beginning");
  steps.leading_spaces_stripped = start.get<std::int64_t>();
}

void read_metaspace(const json& step, DecoderSteps& steps) {
  const json& replaced = value_of(step, "replacement");
  if (!replaced.is_string() || replaced == "") throw FormatError("Metaspace has no replacement");
  steps.replaced = replaced.get<std::string>();
  steps.replacement = " ";
  steps.first_without_replaced =
      value_of(step, "prepend_scheme") != "never" && value_of(step, "add_prefix_space") != false;
}

void read_step(const std::string& type, const json& step, DecoderSteps& steps) {
  if (type == "ByteLevel") steps.byte_level = true;
  if (type == "ByteFallback") steps.byte_fallback = true;
  if (type == "Replace") read_replace(step, steps);
  if (type == "Strip") read_strip(step, steps);
  if (type == "Metaspace") read_metaspace(step, steps);
}

// Whether these are some of `order`, each once at most.
bool in_order(const std::vector<std::string>& types, std::initializer_list<const char*> order) {
  const auto* next = order.begin();
  return std::ranges::all_of(types, [&](const std::string& type) {
    next = std::find(next, order.end(), type);
    return next != order.end() && next++ != order.end();
  });
}

bool is_supported(const std::vector<std::string>& types) {
  const bool strips_each_token = in_order(types, {"Replace", "ByteFallback", "Strip"}) &&
                                 std::ranges::count(types, "Strip") == 1;
  return in_order(types, {"ByteLevel"}) || in_order(types, {"ByteFallback", "Metaspace"}) ||
         (in_order(types, {"Replace", "ByteFallback", "Fuse", "Strip"}) && !strips_each_token);
}

// GPT-2's characters for bytes, by code point: printable ones stand for themselves, the others are
// numbered from 256 on.
constexpr std::size_t kByteLevelCharacters = 256 + 68;
constexpr unsigned kZeroByte = 256;

constexpr std::array<std::uint8_t, kByteLevelCharacters> byte_level_bytes() {
  std::array<std::uint8_t, kByteLevelCharacters> bytes{};
  std::size_t next = kZeroByte;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const bool is_printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 255 && byte != 173);
    bytes[is_printable ? byte : next++] = static_cast<std::uint8_t>(byte);
  }
  return bytes;
}

// The bytes that a token's characters stand for; its own if one of them stands for none.
std::string from_byte_level(const std::string& token) {
  static constexpr auto kBytes = byte_level_bytes();
  std::string bytes;
  for (std::size_t i = 0; i < token.size(); ++i) {
    unsigned character = static_cast<std::uint8_t>(token[i]);
    if (character >= 0xE0) return token;  // of three bytes or more
    if (character >= 0xC0) {
      character = (character & 0x1F) << 6 | (static_cast<std::uint8_t>(token[++i]) & 0x3F);
    }
    const std::uint8_t byte = character < kBytes.size() ? kBytes[character] : 0;
    if (byte == 0 && character != kZeroByte) return token;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

// Of "<0x0A>".
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  std::uint8_t byte = 0;
  const char* const end = token.data() + 5;
  const auto [parsed_to, error] = std::from_chars(token.data() + 3, end, byte, 16);
  if (error != std::errc() || parsed_to != end) return std::nullopt;
  return static_cast<char>(byte);
}

std::string replace_all(std::string text, const std::string& replaced,
                        const std::string& replacement) {
  for (std::size_t at = 0; (at = text.find(replaced, at)) != std::string::npos;
       at += replacement.size()) {
    text.replace(at, replaced.size(), replacement);
  }
  return text;
}

}  // namespace

DecoderSteps parse_decoder(std::string_view text) {
  const json root = json::parse(text, limit_depth, /*allow_exceptions=*/false);
  const bool is_sequence = value_of(root, "type") == "Sequence";
  const json list = is_sequence ? value_of(root, "decoders") : json::array({root});
  if (!list.is_array()) throw FormatError("its decoder has no list of decoders");
  std::vector<std::string> types;
  for (const json& step : list) types.push_back(text_of(value_of(step, "type")));
  if (!is_supported(types)) refuse(fmt::format("{}", fmt::join(types, ", ")));
  DecoderSteps steps;
  for (std::size_t i = 0; i < types.size(); ++i) read_step(types[i], list[i], steps);
  return steps;
}

TokenDecoder::TokenDecoder(const TokenizerFile& file, SpecialTokens special)
    : file_(file),
      special_(special),
      steps_(parse_decoder(file.decoder())),
      spaces_to_strip_(steps_.leading_spaces_stripped) {}

std::string TokenDecoder::add(std::int32_t id) {
  const TokenizerFile::Token* const token = file_.find(id);
  const bool is_shown = token != nullptr && (special_ == SpecialTokens::show || !token->special);
  if (!is_shown) return "";
  std::string bytes = bytes_of(token->text);
  at_first_token_ = false;
  for (; spaces_to_strip_ > 0 && bytes.starts_with(' '); --spaces_to_strip_) bytes.erase(0, 1);
  if (!bytes.empty()) spaces_to_strip_ = 0;
  return text_.add(bytes);
}

std::string TokenDecoder::bytes_of(const std::string& token) const {
  if (steps_.byte_level) return from_byte_level(token);
  if (steps_.byte_fallback) {
    if (const auto byte = fallback_byte(token)) return {*byte};
  }
  if (steps_.replaced.empty()) return token;
  const bool removed = steps_.first_without_replaced && at_first_token_;
  return replace_all(token, steps_.replaced, removed ? "" : steps_.replacement);
}

}  // namespace strata::models
